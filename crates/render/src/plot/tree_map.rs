//! A tree map: areas in proportion to counts, of files of code, in them of functions, in them of lines.
//!
//! Rows of rectangles are laid out so that each is as square as it can be: a rectangle is added to the row
//! along the shorter side for as long as the worst aspect ratio of the row gets better.
//!
//! # Source
//!
//! Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000.

use super::markup::{cut, escaped, text_of};
use super::page::page;
use crate::units;

/// Size of the map.
const MAP: MapArea = MapArea { x: 0.0, y: 0.0, width: 1100.0, height: 660.0 };

/// Height of a strip with the name of what contains others.
const STRIP: f64 = 16.0;

/// Width of a character, about.
const CHARACTER: f64 = 6.3;

/// Colours of files, which repeat.
const COLOURS: usize = 8;

/// Areas that are drawn at most, and rows of the table below.
const MOST_AREAS: usize = 3000;
const MOST_ROWS: usize = 500;

/// An area with those in it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MapNode {
    /// Its name.
    pub name: String,
    /// Its count; that of a node with others in it is their sum.
    pub count: u64,
    /// The areas in it.
    pub children: Vec<MapNode>,
}

impl MapNode {
    /// Adds a count to the node at a path below this one.
    pub fn add(&mut self, path: &[String], count: u64) {
        self.count = self.count.saturating_add(count);
        let Some((name, rest)) = path.split_first() else { return };
        let index = self.children.iter().position(|child| child.name == *name).unwrap_or_else(|| {
            self.children.push(MapNode { name: name.clone(), ..MapNode::default() });
            self.children.len() - 1
        });
        self.children[index].add(rest, count);
    }
}

/// The words of a page.
#[derive(Clone, PartialEq, Debug)]
pub struct MapTexts {
    /// The title, such as the command.
    pub title: String,
    /// The event, and how it was counted.
    pub subtitle: String,
    /// The remarks below.
    pub notes: Vec<String>,
}

/// A page that needs no other file and no network.
pub fn html(root: &MapNode, texts: &MapTexts) -> String {
    let head = format!(
        "<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{}{}</style>",
        include_str!("page.css"),
        include_str!("tree_map.css")
    );
    let notes: String = texts.notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note))).collect();
    let (title, subtitle) = (escaped(&texts.title), escaped(&texts.subtitle));
    let body = format!("<h1>{title}</h1>\n<p>{subtitle}</p>\n{}{}{notes}", svg(root), table(root));
    page(&texts.title, &head, &body)
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct MapArea {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

fn svg(root: &MapNode) -> String {
    let MapArea { width, height, .. } = MAP;
    let mut drawing = MapDrawing { total: root.count, left: MOST_AREAS, out: String::new() };
    drawing.children(root, MAP, &[], None);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"tree map; the table below has its numbers\">\n{}</svg>\n",
        drawing.out
    )
}

struct MapDrawing {
    total: u64,
    /// Areas that may still be drawn.
    left: usize,
    out: String,
}

impl MapDrawing {
    /// Draws what is in a node, the largest first; what is smaller than a pixel stays the ground.
    fn children(&mut self, node: &MapNode, area: MapArea, path: &[&str], colour: Option<usize>) {
        let mut sorted: Vec<&MapNode> = node.children.iter().filter(|child| child.count > 0).collect();
        sorted.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.name.cmp(&other.name)));
        let counts: Vec<f64> = sorted.iter().map(|child| child.count as f64).collect();
        for (i, (child, place)) in sorted.into_iter().zip(squarified(&counts, area)).enumerate() {
            if self.left == 0 || place.width < 1.0 || place.height < 1.0 {
                return;
            }
            self.left -= 1;
            self.one(child, place, path, colour.unwrap_or(i % COLOURS));
        }
    }

    fn one(&mut self, node: &MapNode, area: MapArea, path: &[&str], colour: usize) {
        let MapArea { x, y, width, height } = area;
        let full: Vec<&str> = path.iter().copied().chain([node.name.as_str()]).collect();
        let names: String = full.iter().map(|name| escaped(name) + "\n").collect();
        let (count, share) = (units::grouped(node.count as f64), share(node.count, self.total));
        let title = format!("{names}{count} ({share})");
        self.out += &format!(
            "<g><title>{}</title><rect class=\"c{colour} d{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            title,
            path.len()
        );
        let room = ((width - 8.0) / CHARACTER).max(0.0) as usize;
        if room >= 4 && height >= STRIP {
            self.out += text_of("ink", x + 4.0, y + 12.0, "start", &cut(&node.name, room)).trim_end();
        }
        self.out += "</g>\n";
        if !node.children.is_empty() && height > 2.0 * STRIP && width > STRIP {
            let inside =
                MapArea { x: x + 2.0, y: y + STRIP, width: width - 4.0, height: height - STRIP - 2.0 };
            self.children(node, inside, &full, Some(colour));
        }
    }
}

/// The area of each count; they fill the whole area. The counts are descending.
fn squarified(counts: &[f64], mut area: MapArea) -> Vec<MapArea> {
    let mut places = Vec::new();
    let mut rest = counts;
    let mut left: f64 = counts.iter().sum();
    while !rest.is_empty() && left > 0.0 && area.width > 0.0 && area.height > 0.0 {
        let side = area.width.min(area.height);
        let scale = area.width * area.height / left;
        let (mut length, mut sum) = (1, rest[0]);
        while length < rest.len() {
            let more = sum + rest[length];
            if worst(&rest[..length], sum, scale, side) < worst(&rest[..=length], more, scale, side) {
                break;
            }
            (length, sum) = (length + 1, more);
        }
        let depth = sum * scale / side;
        let mut along = 0.0;
        for count in &rest[..length] {
            let extent = side * count / sum;
            places.push(match area.width >= area.height {
                true => MapArea { x: area.x, y: area.y + along, width: depth, height: extent },
                false => MapArea { x: area.x + along, y: area.y, width: extent, height: depth },
            });
            along += extent;
        }
        match area.width >= area.height {
            true => (area.x, area.width) = (area.x + depth, area.width - depth),
            false => (area.y, area.height) = (area.y + depth, area.height - depth),
        }
        left -= sum;
        rest = &rest[length..];
    }
    places
}

/// The worst aspect ratio in a row along a side.
fn worst(row: &[f64], sum: f64, scale: f64, side: f64) -> f64 {
    let (most, least) = (row[0] * scale, row[row.len() - 1] * scale);
    let (sum, side) = (sum * scale, side * side);
    (side * most / (sum * sum)).max(sum * sum / (side * least))
}

fn share(count: u64, total: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / total.max(1) as f64)
}

/// The numbers of the map.
fn table(root: &MapNode) -> String {
    let mut rows: Vec<(u64, Vec<&str>)> = Vec::new();
    leaves(root, &mut Vec::new(), &mut rows);
    rows.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let shown = rows.iter().take(MOST_ROWS).map(|(count, path)| {
        let path: Vec<String> = path.iter().rev().map(|name| escaped(name)).collect();
        let (count, share) = (units::grouped(*count as f64), share(*count, root.count));
        format!("<tr><td>{count}<td>{share}<td>{}\n", path.join(" <small>"))
    });
    let shown: String = shown.collect();
    let more = rows.len().saturating_sub(MOST_ROWS);
    let more = if more > 0 { format!("<p>{more} more rows are not shown</p>\n") } else { String::new() };
    format!("<table>\n{shown}</table>\n{more}")
}

fn leaves<'a>(node: &'a MapNode, path: &mut Vec<&'a str>, rows: &mut Vec<(u64, Vec<&'a str>)>) {
    for child in node.children.iter().filter(|child| child.count > 0) {
        path.push(&child.name);
        match child.children.is_empty() {
            true => rows.push((child.count, path.clone())),
            false => leaves(child, path, rows),
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(rows: &[(&str, u64)]) -> MapNode {
        let mut root = MapNode::default();
        for (path, count) in rows {
            root.add(&path.split('/').map(str::to_owned).collect::<Vec<_>>(), *count);
        }
        root
    }

    fn texts() -> MapTexts {
        MapTexts { title: "a <b>".to_owned(), subtitle: "s".to_owned(), notes: vec!["n".to_owned()] }
    }

    #[test]
    fn areas_are_in_proportion_to_counts_and_fill_the_map() {
        let counts = [60.0, 60.0, 40.0, 30.0, 20.0, 20.0, 10.0];
        let places = squarified(&counts, MapArea { x: 5.0, y: 7.0, width: 600.0, height: 400.0 });
        assert_eq!(places.len(), counts.len());
        for (count, place) in counts.iter().zip(&places) {
            assert!((place.width * place.height - count * 1000.0).abs() < 1e-6, "{place:?}");
            let ratio = place.width.max(place.height) / place.width.min(place.height);
            assert!(ratio < 3.0, "{place:?} is no square");
            assert!(place.x >= 5.0 - 1e-9 && place.x + place.width <= 605.0 + 1e-9, "{place:?}");
            assert!(place.y >= 7.0 - 1e-9 && place.y + place.height <= 407.0 + 1e-9, "{place:?}");
        }
        for (i, one) in places.iter().enumerate() {
            for other in &places[i + 1..] {
                let apart = |a: f64, width: f64, b: f64| a + width <= b + 1e-9;
                let beside = apart(one.x, one.width, other.x) || apart(other.x, other.width, one.x);
                let below = apart(one.y, one.height, other.y) || apart(other.y, other.height, one.y);
                assert!(beside || below, "{one:?} overlaps {other:?}");
            }
        }
        assert_eq!(squarified(&[], MAP), []);
        assert_eq!(squarified(&[0.0], MAP), []);
    }

    #[test]
    fn a_page_has_every_function_with_its_count_and_no_markup_of_names() {
        let page = html(
            &root(&[("p/f<T>", 900), ("p/g", 99), ("libc/memcpy", 1), ("libc/unexecuted", 0)]),
            &texts(),
        );
        for part in
            ["<title>a &lt;b&gt;</title>", "p\nf&lt;T&gt;\n900 (90.0 %)", "<td>99<td>9.9 %<td>g <small>p"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            !page.contains("unexecuted") && !page.contains("<script") && !page.contains("http://localhost")
        );
    }

    #[test]
    fn very_many_functions_make_no_page_of_megabytes() {
        let rows: Vec<(String, u64)> = (0..20_000).map(|i| (format!("p/f{i}"), 1 + i % 7)).collect();
        let rows: Vec<(&str, u64)> = rows.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let page = html(&root(&rows), &texts());
        assert!(page.len() < 1 << 20, "{}", page.len());
        assert!(page.contains("19500 more rows are not shown"));
    }
}
