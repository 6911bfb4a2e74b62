package apitest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// loader type-checks the declarations of packages from source, without the go command. It does
// not look into function bodies, and a package that is neither in the module nor in the standard
// library is empty to it: no exported declaration may need one.
type loader struct {
	context build.Context
	module  string // import path of the module
	root    string // folder of the module
	files   *token.FileSet
	loaded  map[string]*types.Package // by import path; nil while it is being loaded
}

// newLoader returns a loader for the module in the folder root. Files are selected for linux/amd64
// without cgo, so the result is the same on every machine.
func newLoader(module, root string) *loader {
	context := build.Default
	context.GOOS, context.GOARCH = "linux", "amd64"
	context.CgoEnabled, context.BuildTags = false, nil
	return &loader{
		context: context, module: module, root: root,
		files: token.NewFileSet(), loaded: map[string]*types.Package{"unsafe": types.Unsafe},
	}
}

// folder returns the folder of a package, and "" for one of another module.
func (l *loader) folder(path string) string {
	if path == l.module {
		return l.root
	}
	if inside, found := strings.CutPrefix(path, l.module+"/"); found {
		return filepath.Join(l.root, inside)
	}
	for _, parent := range []string{"src", "src/vendor"} {
		folder := filepath.Join(l.context.GOROOT, parent, path)
		if _, err := os.Stat(folder); err == nil {
			return folder
		}
	}
	return ""
}

// Import makes a loader a types.Importer.
func (l *loader) Import(path string) (*types.Package, error) {
	if p, found := l.loaded[path]; found {
		if p == nil {
			return nil, fmt.Errorf("import cycle through %s", path)
		}
		return p, nil
	}
	l.loaded[path] = nil
	p, err := l.load(path)
	l.loaded[path] = p
	return p, err
}

func (l *loader) load(path string) (*types.Package, error) {
	folder := l.folder(path)
	if folder == "" {
		p := types.NewPackage(path, filepath.Base(path))
		p.MarkComplete()
		return p, nil
	}
	found, err := l.context.ImportDir(folder, 0)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	var files []*ast.File
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(l.files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer:         l,
		IgnoreFuncBodies: true,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", l.context.GOARCH),
		// Names of other modules do not resolve. Where an exported declaration needs one, its line
		// has an "invalid type", which declarations reports.
		Error: func(error) {},
	}
	p, _ := config.Check(path, l.files, files, nil)
	return p, nil
}

// publicPackages returns the import paths of the module's packages that other modules can import.
// Modules nested in this one are not looked at.
func (l *loader) publicPackages() (paths []string, err error) {
	err = filepath.WalkDir(l.root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name != l.root {
			base := entry.Name()
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || slices.Contains([]string{"internal", "testdata", "vendor"}, base) ||
				base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
		}
		found, err := l.context.ImportDir(name, 0)
		var none *build.NoGoError
		if errors.As(err, &none) || err == nil && found.Name == "main" {
			return nil
		}
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(l.root, name)
		paths = append(paths, strings.TrimSuffix(l.module+"/"+filepath.ToSlash(inside), "/."))
		return err
	})
	return paths, err
}
