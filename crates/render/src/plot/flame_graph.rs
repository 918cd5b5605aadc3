//! A flame graph: call paths from the top down, whose widths are in proportion to inclusive counts, and the
//! same paths as a tree that opens.
//!
//! # Literature
//!
//! B. Gregg: The Flame Graph, Communications of the ACM 59(6), 2016.

use super::markup::{cut, escaped, text_of};
use super::page::page;
use super::tree_map::MapTexts;
use crate::units;

/// Width of the graph, and height of a path.
const WIDTH: f64 = 1100.0;
const ROW: f64 = 17.0;

/// Width of a character, about.
const CHARACTER: f64 = 6.3;

/// The narrowest rectangle that is drawn.
const NARROWEST: f64 = 0.5;

/// Paths that are drawn at most, in the graph and in the tree, and the deepest one.
const MOST_AREAS: usize = 10_000;
const MOST_ROWS: usize = 2000;
const DEEPEST: usize = 250;

/// The smallest share of a path in the tree.
const LEAST_SHARE: f64 = 0.001;

/// Colours of files, which repeat.
const COLOURS: usize = 8;

/// A call path. Those of callers are before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlamePath {
    /// The index of the path of the caller.
    pub parent: Option<usize>,
    /// The name of the function.
    pub name: String,
    /// A number for its file of code.
    pub file: usize,
    /// The count of this path alone.
    pub own: u64,
}

/// A page that needs no other file and no network.
pub fn html(paths: &[FlamePath], texts: &MapTexts) -> String {
    let flame = FlameGraph::of(paths);
    let head = format!(
        "<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{}{}{}</style>",
        include_str!("page.css"),
        include_str!("tree_map.css"),
        include_str!("flame_graph.css")
    );
    let notes: String = texts.notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note))).collect();
    let (title, subtitle) = (escaped(&texts.title), escaped(&texts.subtitle));
    let body = format!("<h1>{title}</h1>\n<p>{subtitle}</p>\n{}{}{notes}", flame.svg(), flame.tree());
    page(&texts.title, &head, &body)
}

struct FlameGraph<'a> {
    paths: &'a [FlamePath],
    /// The count of each path with those below it.
    inclusive: Vec<u64>,
    /// The paths below each path, the largest first, and those that have no caller.
    children: Vec<Vec<usize>>,
    roots: Vec<usize>,
    total: u64,
}

impl<'a> FlameGraph<'a> {
    fn of(paths: &'a [FlamePath]) -> FlameGraph<'a> {
        let mut inclusive: Vec<u64> = paths.iter().map(|path| path.own).collect();
        let (mut children, mut roots) = (vec![Vec::new(); paths.len()], Vec::new());
        for (index, path) in paths.iter().enumerate().rev() {
            match path.parent {
                Some(parent) => {
                    inclusive[parent] = inclusive[parent].saturating_add(inclusive[index]);
                    children[parent].push(index);
                }
                None => roots.push(index),
            }
        }
        let order = |one: &usize, other: &usize| {
            let names = || paths[*one].name.cmp(&paths[*other].name);
            inclusive[*other].cmp(&inclusive[*one]).then_with(names)
        };
        children.iter_mut().chain([&mut roots]).for_each(|paths: &mut Vec<usize>| paths.sort_by(order));
        let total = roots.iter().fold(0_u64, |sum, root| sum.saturating_add(inclusive[*root]));
        FlameGraph { paths, inclusive, children, roots, total }
    }

    fn svg(&self) -> String {
        let scale = WIDTH / self.total.max(1) as f64;
        let (mut out, mut deepest, mut drawn) = (String::new(), 0, 0);
        let mut row: Vec<(usize, f64)> = Vec::new();
        let place = |paths: &[usize], mut x: f64, row: &mut Vec<(usize, f64)>| {
            for path in paths {
                let width = self.inclusive[*path] as f64 * scale;
                if width >= NARROWEST {
                    row.push((*path, x));
                }
                x += width;
            }
        };
        place(&self.roots, 0.0, &mut row);
        for depth in 0..DEEPEST {
            if row.is_empty() || drawn >= MOST_AREAS {
                break;
            }
            deepest = depth + 1;
            let mut below = Vec::new();
            for (path, x) in row {
                drawn += 1;
                out += &self.area(path, x, depth as f64 * ROW, self.inclusive[path] as f64 * scale);
                place(&self.children[path], x, &mut below);
            }
            row = below;
        }
        let height = deepest as f64 * ROW;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"flame graph; the tree below has its numbers\">\n{out}</svg>\n"
        )
    }

    fn area(&self, path: usize, x: f64, y: f64, width: f64) -> String {
        let FlamePath { name, file, own, .. } = &self.paths[path];
        let title =
            format!("{}\n{}, {} of its own", escaped(name), self.count(path), units::grouped(*own as f64));
        let mut out = format!(
            "<g><title>{title}</title><rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{ROW}\"/>",
            file % COLOURS
        );
        let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        if room >= 3 {
            out += text_of("ink", x + 3.0, y + 12.0, "start", &cut(name, room)).trim_end();
        }
        out + "</g>\n"
    }

    fn count(&self, path: usize) -> String {
        let share = 100.0 * self.inclusive[path] as f64 / self.total.max(1) as f64;
        format!("{} ({share:.1} %)", units::grouped(self.inclusive[path] as f64))
    }

    /// The paths as a tree of parts that open; the largest ones are open.
    fn tree(&self) -> String {
        let least = (self.total as f64 * LEAST_SHARE) as u64;
        let (mut out, mut rows) = (String::from("<div class=\"tree\">\n"), 0);
        let mut steps: Vec<(Option<usize>, usize)> =
            self.roots.iter().rev().map(|root| (Some(*root), 0)).collect();
        while let Some((step, depth)) = steps.pop() {
            let Some(path) = step else {
                out += "</details>\n";
                continue;
            };
            if self.inclusive[path] <= least || rows >= MOST_ROWS || depth >= DEEPEST {
                continue;
            }
            rows += 1;
            let open = if self.inclusive[path] >= self.total / 4 { " open" } else { "" };
            out += &format!(
                "<details{open}><summary>{} <b>{}</b> <small>{} of its own</small></summary>\n",
                self.count(path),
                escaped(&self.paths[path].name),
                units::grouped(self.paths[path].own as f64)
            );
            steps.push((None, depth));
            steps.extend(self.children[path].iter().rev().map(|child| (Some(*child), depth + 1)));
        }
        out + "</div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> MapTexts {
        MapTexts { title: "a <b>".to_owned(), subtitle: "s".to_owned(), notes: vec!["n".to_owned()] }
    }

    fn path(parent: Option<usize>, name: &str, own: u64) -> FlamePath {
        FlamePath { parent, name: name.to_owned(), file: 0, own }
    }

    #[test]
    fn widths_are_inclusive_counts_and_names_are_no_markup() {
        let paths = [path(None, "main", 100), path(Some(0), "f<T>", 600), path(Some(0), "g", 300)];
        let page = html(&paths, &texts());
        for part in [
            "<title>main\n1,000 (100.0 %), 100 of its own</title>",
            "<title>f&lt;T&gt;\n600 (60.0 %), 600 of its own</title>",
            "x=\"660.0\" y=\"17.0\" width=\"330.0\"",
            "<b>g</b>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    }

    #[test]
    fn very_deep_and_very_many_paths_make_no_page_of_megabytes() {
        let deep = (0..100_000_usize).map(|i| path(i.checked_sub(1), "f", 1));
        let page = html(&deep.collect::<Vec<_>>(), &texts());
        assert!(page.len() < 1 << 20, "{}", page.len());
        let wide = (0..100_000_usize).map(|i| path((i > 0).then_some(0), &format!("f{i}"), 1));
        let page = html(&wide.collect::<Vec<_>>(), &texts());
        assert!(page.len() < 1 << 20, "{}", page.len());
    }
}
