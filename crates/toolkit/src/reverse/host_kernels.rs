//! Kernels on the CPU that this runs on.

use std::num::NonZeroU32;
use std::path::Path;

use cyclometer_core::{Error, ErrorKind, Result};
use cyclometer_kernels::{Geometry, KernelRecipe, RecipeMemory};

pub(super) use CpuKernels as KernelRunner;

/// Kernels that the calling thread executes.
#[derive(Debug)]
pub(super) struct CpuKernels {
    recipes: Vec<KernelRecipe>,
    memory: RecipeMemory,
}

impl CpuKernels {
    /// The runner of these recipes, whose memory is prepared.
    ///
    /// # Errors
    ///
    /// A recipe that cannot run.
    pub(super) fn new(recipes: Vec<KernelRecipe>) -> Result<CpuKernels> {
        let mut runner = CpuKernels { recipes, memory: RecipeMemory::new() };
        (0..runner.recipes.len()).try_for_each(|kernel| runner.run(kernel, 1))?;
        Ok(runner)
    }

    /// Executes so many iterations of a kernel.
    ///
    /// # Errors
    ///
    /// A recipe that cannot run, and more than 2³² - 1 iterations.
    pub(super) fn run(&mut self, kernel: usize, iterations: u64) -> Result<()> {
        let rounds = u32::try_from(iterations).ok().and_then(NonZeroU32::new);
        let rounds = rounds.ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, format!("a kernel cannot run for {iterations} iterations"))
        })?;
        let ran = self.recipes[kernel].run(rounds, &mut self.memory);
        ran.map_err(|error| Error::new(ErrorKind::Os, error.to_string()))
    }
}

/// The recipes that run on a CPU, with footprints for its caches.
pub(super) fn recipes(cpu: u32) -> Vec<KernelRecipe> {
    let recipes = KernelRecipe::all_for(&geometry(cpu)).into_iter();
    recipes.filter(|recipe| recipe.absence().is_none()).collect()
}

/// Nothing: what has run here was counted here.
#[cfg_attr(
    feature = "fake-devices",
    allow(dead_code, reason = "served machines have a function of their own")
)]
pub(super) fn executed_elsewhere(_name: &str, _iterations: u64) -> Result<()> {
    Ok(())
}

/// The sizes of the caches of a CPU, as far as the system has them.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`, `cache/index*`; `getauxval(3)`, `AT_PAGESZ`.
fn geometry(cpu: u32) -> Geometry {
    let mut geometry = Geometry::default();
    for index in 0..8 {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let word = |name: &str| std::fs::read_to_string(Path::new(&folder).join(name)).ok();
        let Some(bytes) = word("size").and_then(|text| bytes_of(text.trim())) else { continue };
        let (level, kind) = (word("level").unwrap_or_default(), word("type").unwrap_or_default());
        match (level.trim(), kind.trim()) {
            ("1", "Data") => {
                geometry.l1d_bytes = bytes;
                let line = word("coherency_line_size").and_then(|line| line.trim().parse().ok());
                geometry.line_bytes = line.unwrap_or(geometry.line_bytes);
            }
            ("1", "Instruction") => geometry.l1i_bytes = bytes,
            ("2", _) => geometry.l2_bytes = bytes,
            ("3", _) => geometry.llc_bytes = bytes,
            _ => {}
        }
    }
    geometry.page_bytes = page_bytes().unwrap_or(geometry.page_bytes);
    geometry
}

/// The bytes of a size such as `48K`.
fn bytes_of(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix(['K', 'M']) {
        Some(number) => (number, if text.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (text, 1),
    };
    number.parse::<usize>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// The size of a page, by the auxiliary vector.
fn page_bytes() -> Option<usize> {
    const AT_PAGESZ: usize = 6;
    const WORD: usize = size_of::<usize>();
    let vector = std::fs::read("/proc/self/auxv").ok()?;
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
    let pairs = vector.chunks_exact(2 * WORD);
    let found = pairs.filter(|pair| word(&pair[..WORD]) == Some(AT_PAGESZ));
    found.map(|pair| word(&pair[WORD..])).next()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read_with_their_units() {
        for (text, expected) in [
            ("48K", Some(48 << 10)),
            ("2M", Some(2 << 20)),
            ("512", Some(512)),
            ("", None),
            ("0K", None),
            ("xK", None),
        ] {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
    }

    #[test]
    fn kernels_run_here_and_none_for_no_iteration() {
        let recipes = KernelRecipe::all().into_iter().filter(|recipe| recipe.absence().is_none()).take(3);
        let mut runner = CpuKernels::new(recipes.collect()).unwrap();
        if !runner.recipes.is_empty() {
            runner.run(0, 10).unwrap();
            assert!(runner.run(0, 0).unwrap_err().to_string().contains("0 iterations"));
        }
    }
}
