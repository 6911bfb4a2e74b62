package housetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// source is a Go file of the repository.
type source struct {
	name   string // path from the folder of the module, with slashes
	nested bool   // whether it belongs to a module within this one
	lines  []string
	file   *ast.File
	set    *token.FileSet
}

func (s source) test() bool   { return strings.HasSuffix(s.name, "_test.go") }
func (s source) inRoot() bool { return path.Dir(s.name) == "." }

// line returns the number of the line, from 1, that a position is in.
func (s source) line(p token.Pos) int { return s.set.Position(p).Line }

// readSources returns all Go files in the folder of a module and in those of the modules within,
// sorted by name, but for test data and hidden folders. Build tags are not looked at.
func readSources(module fs.FS) (sources []source, err error) {
	var nested []string // folders of nested modules
	err = fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			base := path.Base(name)
			if base == "testdata" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
			if _, err := fs.Stat(module, path.Join(name, "go.mod")); err == nil {
				nested = append(nested, name+"/")
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		s := source{name: name, set: token.NewFileSet()}
		for _, folder := range nested {
			s.nested = s.nested || strings.HasPrefix(name, folder)
		}
		s.lines = strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
		s.file, err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		sources = append(sources, s)
		return err
	})
	return sources, err
}
