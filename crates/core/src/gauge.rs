//! Gauges: quantities that go up and down, whose value over a time is a mean.

use crate::event::{Candidate, Part, Unit};
use crate::gpu::{DeviceTotal, GpuQuantity};
use crate::ladder::Rung;

impl Candidate {
    /// How the means of several devices add up, where the value is a gauge: a quantity that goes up and down
    /// and is sampled. `None` for counts.
    pub fn gauge(&self) -> Option<DeviceTotal> {
        self.parts.iter().find_map(|part| match part {
            Part::Gpu(part) => part.quantity.gauge(),
            _ => None,
        })
    }
}

impl GpuQuantity {
    /// The unit of its values.
    pub fn unit(self) -> Unit {
        match self {
            GpuQuantity::Energy => Unit::Joules,
            GpuQuantity::MemoryUsed | GpuQuantity::ProcessMemory => Unit::Bytes,
            GpuQuantity::SmClock | GpuQuantity::MemoryClock => Unit::Other("MHz".to_owned()),
            GpuQuantity::Power => Unit::Other("W".to_owned()),
            GpuQuantity::PcieReceive | GpuQuantity::PcieTransmit => Unit::Other("B/s".to_owned()),
            GpuQuantity::Temperature => Unit::Other("°C".to_owned()),
            GpuQuantity::Utilisation | GpuQuantity::MemoryUtilisation | GpuQuantity::Throttled => {
                Unit::Other("%".to_owned())
            }
        }
    }
}

/// Whether values of this source and unit are means of a gauge, which do not add up. Energy alone is a
/// count of this source.
pub fn is_gauge(source: Option<Rung>, unit: &Unit) -> bool {
    source == Some(Rung::Gpu) && *unit != Unit::Joules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_alone_is_a_count() {
        let counts = GpuQuantity::ALL.into_iter().filter(|quantity| quantity.gauge().is_none());
        assert_eq!(counts.collect::<Vec<_>>(), [GpuQuantity::Energy]);
        for quantity in GpuQuantity::ALL {
            assert_eq!(is_gauge(Some(Rung::Gpu), &quantity.unit()), quantity.gauge().is_some());
            assert!(!is_gauge(Some(Rung::Os), &quantity.unit()));
        }
    }
}
