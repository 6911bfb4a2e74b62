// Package housetest keeps the figures of the house: how large files, functions and types may
// become before they are to be divided, and how wide comments may be. Only tests are in it, and
// nothing imports it.
//
//	go test ./internal/test/housetest -v -run TestFigures
//
// prints each figure beside its bound.
package housetest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// The bounds. A change that needs a larger one says why.
const (
	maxRootFiles     = 35   // files of the root without tests
	maxRootLines     = 7200 // lines of these files together
	maxFileLines     = 400  // lines of a file of the module, tests excepted
	maxFunctionLines = 60   // lines of a function in the module, tests excepted
	maxLinked        = 25   // packages under internal/ that a program links with the root

	maxLimiterMethods = 110 // methods of RateLimiter
	maxSharedMethods  = 40  // methods of shared: what a shared limiter does in another way
	maxSharedTests    = 45  // comparisons of a shared with nil in the root, tests excepted

	maxTestFileLines       = 600 // lines of a test file of the root or under internal/
	maxMedianTestFileLines = 350 // median of the test files of the root
)

// figure is what was counted, beside its bound.
type figure struct {
	name      string
	have, max int
	over      []string // what is beyond the bound on its own, if the figure is a largest one
}

// Each figure is counted, whatever the others are, so one run tells all that is too large.
func TestFigures(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	sources, err := readSources(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	figures := count(sources)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "have\tmost\t")
	for _, f := range figures {
		verdict := ""
		if f.have > f.max {
			verdict = ": TOO MANY"
		}
		fmt.Fprintf(w, "%d\t%d\t  %s%s\n", f.have, f.max, f.name, verdict)
	}
	w.Flush()
	t.Log("\n" + table.String())
	for _, f := range figures {
		if f.have > f.max {
			t.Errorf("%s: %d, at most %d%s", f.name, f.have, f.max, indented(f.over))
		}
	}
	for _, name := range []string{"RateLimiter", "shared"} {
		if methods(sources, name) == 0 {
			t.Errorf("the root has no type %s: count the methods of what is there in its place", name)
		}
	}
}

func indented(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return ":\n\t" + strings.Join(lines, "\n\t")
}

// count returns all figures of a module.
func count(sources []source) []figure {
	files := figure{name: "files of the root", max: maxRootFiles}
	lines := figure{name: "lines of the root", max: maxRootLines}
	file := figure{name: "lines of the module's largest file", max: maxFileLines}
	tests := figure{name: "lines of the largest test file of root and internal", max: maxTestFileLines}
	median := figure{name: "lines of the root's median test file", max: maxMedianTestFileLines}
	sharedTests := figure{name: "shared == nil and != nil", max: maxSharedTests}
	var testLines []int
	for _, s := range sources {
		if s.nested {
			continue
		}
		if !s.test() {
			file.largest(len(s.lines), s.name)
		} else if s.inRoot() || strings.HasPrefix(s.name, "internal/") {
			tests.largest(len(s.lines), s.name)
		}
		switch {
		case !s.inRoot():
		case s.test():
			testLines = append(testLines, len(s.lines))
		default:
			files.have++
			lines.have += len(s.lines)
			sharedTests.have += comparisonsWithNil(s, "shared")
		}
	}
	if len(testLines) > 0 {
		slices.Sort(testLines)
		median.have = testLines[len(testLines)/2]
	}
	return []figure{
		files, lines, file, longestFunction(sources),
		{name: "packages under internal/ that the root links", have: linked(sources), max: maxLinked},
		{name: "methods of RateLimiter", have: methods(sources, "RateLimiter"), max: maxLimiterMethods},
		{name: "methods of shared", have: methods(sources, "shared"), max: maxSharedMethods},
		sharedTests, tests, median,
	}
}

// largest takes n into a figure that is the largest of several.
func (f *figure) largest(n int, of string) {
	f.have = max(f.have, n)
	if n > f.max {
		f.over = append(f.over, fmt.Sprintf("%d %s", n, of))
	}
}

// longestFunction counts the lines of functions from the keyword func to the closing brace.
func longestFunction(sources []source) figure {
	f := figure{name: "lines of the module's longest function", max: maxFunctionLines}
	for _, s := range sources {
		if s.nested || s.test() {
			continue
		}
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				first, last := s.line(function.Pos()), s.line(function.End())
				f.largest(last-first+1, fmt.Sprintf("%s:%d %s", s.name, first, function.Name.Name))
			}
		}
	}
	return f
}

// linked counts the packages under internal/ that the root imports, itself or by others, on some
// platform.
func linked(sources []source) (n int) {
	folders := map[string]bool{".": true}
	for known := 0; known < len(folders); {
		known = len(folders)
		for _, s := range sources {
			if s.nested || s.test() || !folders[path.Dir(s.name)] {
				continue
			}
			for _, spec := range s.file.Imports {
				if _, folder, own := strings.Cut(strings.Trim(spec.Path.Value, "`\""), "/go-ratelimit/"); own {
					folders[folder] = true
				}
			}
		}
	}
	for folder := range folders {
		if strings.HasPrefix(folder, "internal/") {
			n++
		}
	}
	return n
}

// methods counts the methods that the root declares on a type. One that is declared anew for each
// platform counts once.
func methods(sources []source, receiver string) int {
	names := map[string]bool{}
	for _, s := range sources {
		if !s.inRoot() || s.test() {
			continue
		}
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil {
				continue
			}
			of := function.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if name, ok := of.(*ast.Ident); ok && name.Name == receiver {
				names[function.Name.Name] = true
			}
		}
	}
	return len(names)
}

// comparisonsWithNil counts comparisons with nil of a variable or field with the given name.
func comparisonsWithNil(s source, name string) (n int) {
	ast.Inspect(s.file, func(node ast.Node) bool {
		compare, ok := node.(*ast.BinaryExpr)
		if !ok || compare.Op != token.EQL && compare.Op != token.NEQ {
			return true
		}
		x, y := lastName(compare.X), lastName(compare.Y)
		if x == name && y == "nil" || x == "nil" && y == name {
			n++
		}
		return true
	})
	return n
}

// lastName returns c of a.b.c.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
