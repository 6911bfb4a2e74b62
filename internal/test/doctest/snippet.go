// Package doctest compiles the Go code in the documents, so that what a reader copies from them
// works. Its own tests do so for all documents of this module, those of internal/test/sdktest for
// the code that imports an SDK, and those of redisstore for the code that imports it; no program
// uses it.
package doctest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Snippet is a block of Go code in a document: a program, declarations, or the statements of a
// function. A line that only has an ellipsis stands for code that was left out.
type Snippet struct {
	Doc  string // the path of the document
	Line int    // of the first line of code
	Text string
}

// Read returns the blocks of a Markdown document that are marked as go, in their order.
func Read(doc string) ([]Snippet, error) {
	doc, err := filepath.Abs(doc)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(doc)
	if err != nil {
		return nil, err
	}
	var snippets []Snippet
	var text *strings.Builder
	line := 0
	for row := range strings.Lines(string(data)) {
		line++
		switch mark := strings.TrimSpace(row); {
		case text == nil && mark == "```go":
			text = new(strings.Builder)
			snippets = append(snippets, Snippet{Doc: doc, Line: line + 1})
		case text != nil && mark == "```":
			snippets[len(snippets)-1].Text = text.String()
			text = nil
		case text != nil && mark == "…":
			text.WriteByte('\n')
		case text != nil:
			text.WriteString(row)
		}
	}
	if text != nil {
		return nil, fmt.Errorf("%s:%d: the block does not end", doc, snippets[len(snippets)-1].Line)
	}
	return snippets, nil
}

// Imports returns the paths that the snippet imports.
func (s Snippet) Imports() (paths []string) {
	_, specs := s.cut()
	for _, spec := range specs {
		if path, err := strconv.Unquote(spec[strings.IndexByte(spec, '"'):]); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// cut takes the imports out of a snippet. Their lines stay, empty.
func (s Snippet) cut() (body string, specs []string) {
	var rest strings.Builder
	block := false
	for row := range strings.Lines(s.Text) {
		code, _, _ := strings.Cut(row, "//")
		code = strings.TrimSpace(code)
		one, single := strings.CutPrefix(code, "import ")
		switch {
		case block && code == ")":
			block = false
		case single && one == "(":
			block = true
		case block || single && strings.HasSuffix(one, `"`):
			if !block {
				code = one
			}
			if code != "" {
				specs = append(specs, code)
			}
		default:
			rest.WriteString(row)
			continue
		}
		rest.WriteByte('\n')
	}
	return rest.String(), specs
}

// program reports whether the snippet is a whole file.
func (s Snippet) program() bool { return strings.HasPrefix(strings.TrimSpace(s.Text), "package ") }

// file returns the snippet as a file of the package docs, with the lines of the document. Its
// statements become the body of a function of the given name.
func (s Snippet) file(function string) string {
	if s.program() {
		return s.at(0) + strings.Replace(s.Text, "package main", "package docs", 1) // that nothing is linked
	}
	body, specs := s.cut()
	var file strings.Builder
	file.WriteString("package docs\n\n")
	for _, spec := range specs {
		line := 1 + strings.Count(s.Text[:strings.Index(s.Text, spec)], "\n")
		file.WriteString(s.at(line-1) + "import " + spec + "\n")
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package docs\n"+body, 0); err == nil {
		return file.String() + s.at(0) + body
	}
	file.WriteString("\nfunc " + function + "() error {\n" + s.at(0) + body)
	for _, name := range defined(body) {
		file.WriteString("_ = " + name + "\n")
	}
	file.WriteString("return nil\n}\n")
	return file.String()
}

// at is a directive: what follows stands in the document, a number of lines into the snippet.
func (s Snippet) at(lines int) string {
	return fmt.Sprintf("//line %s:%d\n", s.Doc, s.Line+lines)
}

// defined returns the variables that statements define: a snippet need not use them.
func defined(body string) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package docs\nfunc _() {\n"+body+"}", 0)
	if err != nil {
		return nil // the compiler says it better
	}
	add := func(ident *ast.Ident) {
		if ident.Name != "_" && !slices.Contains(names, ident.Name) {
			names = append(names, ident.Name)
		}
	}
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			for _, left := range s.Lhs {
				if ident, ok := left.(*ast.Ident); ok && s.Tok == token.DEFINE {
					add(ident)
				}
			}
		case *ast.DeclStmt:
			for _, spec := range s.Decl.(*ast.GenDecl).Specs {
				if value, ok := spec.(*ast.ValueSpec); ok {
					for _, ident := range value.Names {
						add(ident)
					}
				}
			}
		}
	}
	return names
}

// Uses reports whether the snippet imports a package of a module.
func (s Snippet) Uses(module string) bool {
	return slices.ContainsFunc(s.Imports(), func(path string) bool {
		return path == module || strings.HasPrefix(path, module+"/")
	})
}

// ImportsSDK reports whether the snippet needs a module that this one does not: an SDK.
func (s Snippet) ImportsSDK() bool {
	return slices.ContainsFunc(s.Imports(), func(path string) bool {
		first, _, _ := strings.Cut(path, "/")
		return strings.Contains(first, ".") && !strings.HasPrefix(path, rootModule) && path != "gopkg.in/yaml.v3"
	})
}
