// Imports: which package of the module may import what.

package ratelimit_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const modulePath = "dappco.re/go/core/go-ratelimit"

// requirements are the modules that this one may need itself.
var requirements = []string{
	"gopkg.in/yaml.v3", "modernc.org/sqlite", "golang.org/x/sys",
}

// testHelpers are packages of this module that the tests of every package may import.
var testHelpers = []string{
	modulePath + "/internal/test/racetest", modulePath + "/internal/test/piecetest", modulePath + "/internal/test/formertest",
	modulePath + "/internal/test/statefile", modulePath + "/internal/test/limitertest",
}

// importRules say what the packages in a folder may import, beside the standard library
// and each other. A path that ends in /... is all that lies under it. A folder of internal
// without a rule may import nothing of this module or of another; any other folder without
// a rule may import all of this module. Of several folders with a rule the innermost counts.
var importRules = map[string][]string{
	".": {
		modulePath + "/adaptive", modulePath + "/debounce", modulePath + "/limit", modulePath + "/internal/...",
		modulePath + "/money",
		"gopkg.in/yaml.v3", "modernc.org/sqlite", "modernc.org/sqlite/lib", "golang.org/x/sys/...",
	},
	"adaptive": {modulePath + "/limit", modulePath + "/internal/wire"},
	"debounce": {},
	"limit":    {modulePath + "/internal/slidingwindow"},
	"money":    {},
	"keyed": {
		modulePath + "/limit", modulePath + "/internal/breaker", modulePath + "/internal/slidingwindow",
	},
	"keyed/keyedtest": {modulePath + "/keyed"},
	"llmhttp": {
		modulePath, modulePath + "/money",
		modulePath + "/internal/jsonscan", modulePath + "/internal/pieces", modulePath + "/internal/sse",
		modulePath + "/internal/apicall", modulePath + "/internal/notice",
		modulePath + "/internal/test/fakeprovider", // in its tests
		modulePath + "/internal/test/adaptivesim",  // in its tests
		modulePath + "/internal/test/fakestore",    // in its tests
	},
	"debugpage":     {modulePath, modulePath + "/money"},
	"accountlimits": {modulePath, modulePath + "/internal/apicall"},
	"httplimit": {
		modulePath + "/keyed", modulePath + "/limit",
		modulePath + "/internal/jsonscan", modulePath + "/internal/sse",
	},

	"internal/chores": {
		modulePath + "/debounce", modulePath + "/internal/clock",
		modulePath + "/internal/notice", // in its tests
	},
	"internal/clock": {
		modulePath + "/internal/errtext", "golang.org/x/sys/...",
	},
	"internal/errtext": {},
	"internal/demo":    {},
	"internal/notice": {
		modulePath + "/debounce", modulePath + "/internal/errtext", modulePath + "/internal/state", modulePath + "/money",
	},
	"internal/settings": {modulePath + "/internal/store/sqlitelog"},
	"internal/catalog": {
		modulePath + "/internal/errtext", modulePath + "/internal/state", modulePath + "/internal/wire",
		modulePath + "/money",
	},
	"internal/apicall":        {},
	"internal/fsx":            {"golang.org/x/sys/..."},
	"internal/test/fakestore": {modulePath + "/internal/store", modulePath + "/internal/store/memlog"},
	"internal/instruments":    {modulePath, modulePath + "/money"},
	"internal/fleet": {
		modulePath + "/internal/account", modulePath + "/internal/engine", modulePath + "/internal/store",
		modulePath + "/internal/wire",
		modulePath + "/internal/state", // in its tests
	},
	"internal/former": {
		modulePath + "/internal/account", modulePath + "/internal/catalog", modulePath + "/internal/clock",
		modulePath + "/internal/engine", modulePath + "/internal/errtext",
		modulePath + "/internal/fleet", modulePath + "/internal/sqlitestate",
		modulePath + "/internal/state", modulePath + "/internal/store", modulePath + "/internal/store/sqlitelog",
		modulePath + "/internal/replica", modulePath + "/internal/test/formertest", // in its tests
	},
	"internal/replica": {
		modulePath + "/internal/account", modulePath + "/internal/engine", modulePath + "/internal/fleet",
		modulePath + "/internal/lines", modulePath + "/internal/state", modulePath + "/internal/store",
		modulePath + "/internal/verdict", modulePath + "/internal/wire", modulePath + "/money",
		modulePath + "/internal/catalog", modulePath + "/internal/store/memlog", // in its tests
	},
	"internal/store":           {},
	"internal/store/memlog":    {modulePath + "/internal/store", modulePath + "/internal/store/storetest"},
	"internal/store/storetest": {modulePath + "/internal/store"},
	"internal/store/sqlitelog": {
		modulePath + "/internal/store", modulePath + "/internal/store/storetest",
		modulePath + "/internal/clock", modulePath + "/internal/fsx", modulePath + "/internal/sqlitestate",
		modulePath + "/internal/state", // in its tests
	},
	"internal/sqlitestate": {
		modulePath + "/internal/clock", modulePath + "/internal/errtext",
		modulePath + "/internal/fsx", modulePath + "/internal/state", "modernc.org/sqlite", "modernc.org/sqlite/lib",
		modulePath + "/internal/account",
	},
	"internal/state": {
		modulePath + "/internal/clock", modulePath + "/internal/errtext",
		modulePath + "/internal/wire", modulePath + "/money",
	},
	"internal/breaker":       {},
	"internal/slidingwindow": {},
	"internal/tally": {
		modulePath + "/internal/account", modulePath + "/internal/state",
		modulePath + "/money",
	},
	"internal/account": {
		modulePath + "/adaptive", modulePath + "/limit",
		modulePath + "/internal/ring", modulePath + "/internal/state",
		modulePath + "/internal/wire", modulePath + "/money",
	},
	"internal/verdict": {
		modulePath + "/internal/account", modulePath + "/internal/errtext",
		modulePath + "/internal/state", modulePath + "/internal/wire",
		modulePath + "/money",
	},
	"internal/lines": {
		modulePath + "/internal/account", modulePath + "/internal/state",
		modulePath + "/internal/verdict", modulePath + "/internal/wire",
	},
	"internal/engine": {
		modulePath + "/internal/account", modulePath + "/internal/catalog",
		modulePath + "/internal/lines",
		modulePath + "/internal/state", modulePath + "/internal/verdict",
		modulePath + "/internal/wire", modulePath + "/money",
	},
	"internal/yamlfile": {
		modulePath + "/internal/clock", modulePath + "/internal/errtext",
		modulePath + "/internal/fsx", modulePath + "/internal/state", modulePath + "/money", "gopkg.in/yaml.v3",
	},
	"internal/jsonscan": {},
	"internal/pieces":   {},
	"internal/sse":      {},
	"internal/ring":     {modulePath + "/internal/state"},
	"internal/wire":     {},
	"internal/deadline": {},
	"internal/profile": {
		modulePath + "/internal/catalog", modulePath + "/internal/state", modulePath + "/money",
	},

	"internal/test/adaptivesim":  {modulePath + "/adaptive", modulePath + "/limit"},
	"internal/test/apitest":      {},
	"internal/test/demotest":     {},
	"internal/test/doctest":      {},
	"internal/test/fakeprovider": {},
	"internal/test/figure":       {modulePath + "/limit"},
	"internal/test/formertest": {
		modulePath + "/internal/account", modulePath + "/internal/fleet", modulePath + "/internal/state", modulePath + "/money",
	},
	"internal/test/foundlimits": {
		modulePath, modulePath + "/internal/test/fakestore", modulePath + "/internal/sqlitestate",
		modulePath + "/internal/test/adaptivesim",
	},
	"internal/test/housetest": {},
	"internal/test/timeline":  {modulePath, modulePath + "/llmhttp", modulePath + "/internal/test/fakeprovider"},
	"internal/test/keyedoracle": {
		modulePath + "/keyed", modulePath + "/limit",
	},
	"internal/test/limitertest": {modulePath, modulePath + "/internal/sqlitestate"},
	"internal/test/lives": {
		modulePath, modulePath + "/money", modulePath + "/internal/test/fakestore", modulePath + "/internal/sqlitestate",
		modulePath + "/internal/engine", modulePath + "/internal/fleet", modulePath + "/internal/store", modulePath + "/internal/store/memlog",
		modulePath + "/internal/test/mirrorlog",
	},
	"internal/test/mirrorlog": {modulePath + "/internal/store"},
	"internal/test/persist": {
		modulePath, modulePath + "/money", "gopkg.in/yaml.v3", "golang.org/x/sys/...",
	},
	"internal/test/piecetest":    {},
	"internal/test/racetest":     {},
	"internal/test/redistest":    {},
	"internal/test/sharedoracle": {modulePath},
	"internal/test/statefile":    {modulePath + "/internal/state"},
}

// A program links all that its packages import, so none imports more than it needs.
func TestImports(t *testing.T) {
	broken, err := brokenImports(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// brokenImports returns what breaks the rules in a module's folder. Modules
// within are not looked at.
func brokenImports(module fs.FS) (broken []string, err error) {
	err = fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case entry.IsDir():
			base := path.Base(name)
			_, err := fs.Stat(module, path.Join(name, "go.mod"))
			if err == nil || base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" {
				return fs.SkipDir
			}
			return nil
		case name == "go.mod":
			text, err := fs.ReadFile(module, name)
			for _, need := range directRequirements(string(text)) {
				if !slices.Contains(requirements, need) {
					broken = append(broken, "go.mod requires "+need)
				}
			}
			return err
		case path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			helps := slices.Contains(testHelpers, imported) && strings.HasSuffix(name, "_test.go")
			if !helps && !mayImport(path.Dir(name), imported) {
				broken = append(broken, name+" imports "+imported)
			}
		}
		return nil
	})
	return broken, err
}

// mayImport reports whether the package in a folder of the module may import the
// package with the given path.
func mayImport(folder, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return first != "C" // the standard library is all that has no dot there
	}
	top, rest, internal := strings.Cut(folder, "/")
	if internal = internal && top == "internal"; internal {
		name, below, _ := strings.Cut(rest, "/")
		if name == "test" { // a folder of packages, which have nothing to do with each other
			below, _, _ = strings.Cut(below, "/")
			name = path.Join(name, below)
		}
		top = path.Join(top, name)
		for under := folder; under != top; under = path.Dir(under) {
			if _, found := importRules[under]; found {
				top = under
				break
			}
		}
	}
	allowed, found := importRules[top]
	if !found && !internal {
		allowed = []string{modulePath, modulePath + "/..."}
	}
	own := path.Join(modulePath, top)
	allowed = append(slices.Clip(allowed), own)
	if top != "." {
		allowed = append(allowed, own+"/...")
	}
	return slices.ContainsFunc(allowed, func(rule string) bool {
		under, all := strings.CutSuffix(rule, "...")
		return imported == rule || all && strings.HasPrefix(imported, under)
	})
}

// directRequirements returns the modules that a go.mod requires, but for those
// marked as indirect.
func directRequirements(text string) (modules []string) {
	block := ""
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block == "":
			if words[0] != "require" {
				continue
			}
			words = words[1:]
		case block != "require":
			continue
		}
		if comment = strings.TrimSpace(comment); comment != "indirect" && !strings.HasPrefix(comment, "indirect;") {
			modules = append(modules, strings.Trim(words[0], "\"`"))
		}
	}
	return modules
}

// The test itself: it finds what breaks the rules, and nothing else.
func TestImportsFindsWhatIsBroken(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "//go:build windows\n\npackage p\n\nimport (\n"
		for _, i := range imports {
			text += "\t_ " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(text + ")\n\nfunc f() { anything at all")}
	}
	module := fstest.MapFS{
		"go.mod": {Data: []byte("module x\n\ngo 1.26\n\nrequire gopkg.in/yaml.v3 v3.0.1\nrequire example.org/a v1.0.0\n" +
			"require (\n\tmodernc.org/sqlite v1.0.0 // a comment\n\texample.org/b v1.0.0\n\texample.org/c v1.0.0 // indirect\n)\n" +
			"exclude (\n\texample.org/d v1.0.0\n)\nreplace example.org/e => ../e\n")},
		"a.go": file("fmt", "net/http", "gopkg.in/yaml.v3", "modernc.org/sqlite", "modernc.org/sqlite/lib", "golang.org/x/sys/unix",
			modulePath+"/debounce", modulePath+"/limit", modulePath+"/internal/fsx"),
		"a_test.go":           file("testing", modulePath, "example.org/assert"),
		"b.go":                file(modulePath+"/llmhttp", modulePath+"/limit/inner", "modernc.org/libc", "C"),
		"limit/a.go":          file("time"),
		"limit/a_test.go":     file(modulePath+"/limit", modulePath+"/limit/inner", modulePath+"/internal/test/racetest"),
		"limit/b.go":          file(modulePath, modulePath+"/internal/test/racetest"),
		"limit/inner/a.go":    file(modulePath + "/debounce"),
		"debounce/a_test.go":  file(modulePath+"/debounce", "gopkg.in/yaml.v3"),
		"llmhttp/a.go":        file(modulePath, modulePath+"/money"),
		"llmhttp/a_test.go":   file("gopkg.in/yaml.v3"),
		"llmhttp/b.go":        file("go.opentelemetry.io/otel/metric", "github.com/prometheus/client_golang/prometheus"),
		"examples/a/main.go":  file(modulePath, modulePath+"/llmhttp", "modernc.org/sqlite"),
		"internal/fsx/a.go":   file("os", "golang.org/x/sys/unix", modulePath+"/internal/fsx/inner"),
		"internal/fsx/b.go":   file(modulePath, modulePath+"/limit", modulePath+"/internal/test/figure"),
		"internal/other/a.go": file(modulePath + "/internal/other/inner"),
		"internal/store/a.go": file(modulePath + "/internal/sqlitestate"),

		"internal/store/sqlitelog/a.go": file(modulePath+"/internal/sqlitestate", modulePath+"/internal/store", modulePath+"/internal/test/figure"),
		"internal/other/b.go":           file(modulePath+"/limit", "golang.org/x/sys/unix"),
		"internal/test/other/a.go":      file(modulePath+"/internal/test/other/inner", modulePath+"/internal/test/figure"),
		"internal/bench/go.mod":         {},
		"internal/bench/a_test.go":      file("golang.org/x/time/rate"),
		"limit/testdata/a.go":           file("example.org/a"),
		".hidden/a.go":                  file("example.org/a"),
		"README.md":                     {},
	}
	want := []string{
		"a_test.go imports example.org/assert",
		"b.go imports " + modulePath + "/llmhttp",
		"b.go imports " + modulePath + "/limit/inner",
		"b.go imports modernc.org/libc",
		"b.go imports C",
		"debounce/a_test.go imports gopkg.in/yaml.v3",
		"examples/a/main.go imports modernc.org/sqlite",
		"go.mod requires example.org/a",
		"go.mod requires example.org/b",
		"internal/fsx/b.go imports " + modulePath,
		"internal/fsx/b.go imports " + modulePath + "/limit",
		"internal/fsx/b.go imports " + modulePath + "/internal/test/figure",
		"internal/other/b.go imports " + modulePath + "/limit",
		"internal/other/b.go imports golang.org/x/sys/unix",
		"internal/store/a.go imports " + modulePath + "/internal/sqlitestate",
		"internal/store/sqlitelog/a.go imports " + modulePath + "/internal/test/figure",
		"internal/test/other/a.go imports " + modulePath + "/internal/test/figure",
		"limit/b.go imports " + modulePath,
		"limit/b.go imports " + modulePath + "/internal/test/racetest",
		"limit/inner/a.go imports " + modulePath + "/debounce",
		"llmhttp/a_test.go imports gopkg.in/yaml.v3",
		"llmhttp/b.go imports go.opentelemetry.io/otel/metric",
		"llmhttp/b.go imports github.com/prometheus/client_golang/prometheus",
	}
	got, err := brokenImports(module)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	if _, err := brokenImports(fstest.MapFS{"a.go": {Data: []byte("pakage p")}}); err == nil {
		t.Error("no error for a file that is not Go")
	}
}
