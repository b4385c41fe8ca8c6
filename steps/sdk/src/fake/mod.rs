//! An in-memory node for native tests. Denies what was not set up.
//!
//! ```
//! use fettle_step::{fake::Node, files};
//!
//! let node = Node::new();
//! assert!(files::read("site/app.conf", 100).is_err());
//! node.allow_write("site").put_file("site/app.conf", "port = 80\n");
//! assert_eq!(files::read("site/app.conf", 100).unwrap(), b"port = 80\n");
//! assert_eq!(node.calls(), ["files.read site/app.conf", "files.read site/app.conf"]);
//! ```

mod laws;
mod node;
mod trial;

pub(crate) mod credentials;
pub(crate) mod exec;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod gpu;
pub(crate) mod http;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod transfer;

pub use exec::{exited, terminated};
pub use http::answered;
pub use laws::converges;
pub use node::Node;
pub use transfer::digest_of;
pub use trial::Trial;
