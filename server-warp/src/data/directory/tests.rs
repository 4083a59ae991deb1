//! Tests of resolving directories.

use super::*;

#[test]
fn resolved_path_is_same_for_all_names_of_a_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap();
    fs::create_dir(root.join("data")).unwrap();
    let resolved_of = |path: &Path| resolved(path).unwrap();
    assert_eq!(resolved_of(&root.join("data/")), root.join("data"));
    assert_eq!(resolved_of(&root.join("data/../data")), root.join("data"));
    assert_eq!(resolved_of(&root.join("new/deep")), root.join("new/deep"));
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    assert_eq!(resolved_of(Path::new(".")), here);
    assert_eq!(resolved_of(Path::new("new")), here.join("new"));
    assert!(matches!(
        resolved(Path::new("/")),
        Err(DataError::Unnamed { .. })
    ));
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;

        symlink("data", root.join("link")).unwrap();
        assert_eq!(resolved_of(&root.join("link")), root.join("data"));
        symlink("nowhere", root.join("broken")).unwrap();
        assert_eq!(resolved_of(&root.join("broken")), root.join("nowhere"));
        symlink("endless", root.join("endless")).unwrap();
        assert!(resolved(&root.join("endless")).is_err());
    }
}
