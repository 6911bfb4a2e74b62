package housetest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The files that docs/architecture.md names without their folder lie in one of these.
var architectureFolders = []string{".", "docs", "internal", "llmhttp", "llmhttp/internal/headers"}

var (
	goFile     = regexp.MustCompile(`[\w*./]+\.go\b`)
	quotedPath = regexp.MustCompile("`((?:internal|llmhttp|examples)/[\\w*./]+|\\w+\\.(?:svg|txt))`")
)

// TestArchitecture keeps docs/architecture.md true: what it names exists, and it names every
// file of the root and every package.
func TestArchitecture(t *testing.T) {
	module := os.DirFS("../../..")
	text, err := fs.ReadFile(module, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, name := range goFile.FindAllString(string(text), -1) {
		named[name] = true
	}
	for _, quoted := range quotedPath.FindAllStringSubmatch(string(text), -1) {
		named[quoted[1]] = true
	}
	for name := range named {
		if !existsIn(t, module, name) {
			t.Errorf("docs/architecture.md names %s, which does not exist", name)
		}
	}
	err = fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (base[0] == '.' || base == "testdata"):
			return fs.SkipDir
		case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
		case path.Dir(name) == ".":
			if !named[name] {
				t.Errorf("docs/architecture.md does not name %s", name)
			}
		case !strings.Contains(string(text), path.Dir(name)):
			t.Errorf("docs/architecture.md does not name the package %s", path.Dir(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// existsIn reports whether a file or folder, or one that a pattern matches, is there.
func existsIn(t *testing.T, module fs.FS, name string) bool {
	for _, folder := range architectureFolders {
		found, err := fs.Glob(module, path.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return true
		}
	}
	return false
}

// TestContractFiles keeps the files of the root that its readers look for by name.
func TestContractFiles(t *testing.T) {
	for _, name := range []string{
		"ratelimit.go", "quota.go", "provider.go", "prune.go", "decide.go", "persist_yaml.go", "persist_sqlite.go",
		"migrate.go", "counttokens.go", "iter.go", "ratelimit_test.go", "bench_test.go",
	} {
		if _, err := os.Stat("../../../" + name); err != nil {
			t.Error(err)
		}
	}
}
