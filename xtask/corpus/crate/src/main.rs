//! A small crate of two files, for a build by cargo.

mod load;

fn main() {
    println!("{}", load::answer(std::env::args().count() as u64));
}
