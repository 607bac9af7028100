//! What is wrong with a config: where, what, and what to do.

use std::fmt;

/// One thing that is wrong, or in a warning unwise. Never holds a secret or a URL's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named, or `environment`.
    pub file: String,
    /// The line, from 1; none where the problem is in no line.
    pub line: Option<usize>,
    /// The column, from 1, in characters; only of syntax errors.
    pub column: Option<usize>,
    /// The key, such as `sources.shop.projections[0].version`, or the environment variable; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.message, self.mend)
    }
}

/// Everything that keeps a config from being used, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// What has to be mended.
    pub problems: Vec<Problem>,
    /// What is unwise besides.
    pub warnings: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
