package apitest

import (
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sample is a package with one of each kind of declaration.
const sample = `package sample

import (
	"errors"
	"time"

	"example.org/sample/internal/low"
)

type Code int

const (
	CodeOne Code = iota + base
	CodeTwo
)

const base = 1
const Wait = 2 * time.Second

var ErrBad = errors.New("bad")
var Low = low.New()

type Config struct {
	Name string ` + "`yaml:\"name\"`" + `
	OnError, OnEnd func(struct{ Err error }) (n int)
	secret int
	inner
}

type inner struct{ Promoted int }

func (i *inner) Touch(key string) {}

func (Config) Valid() bool { return true }

type Store interface {
	Get(key string) (value int, ok bool)
}

type List[T any] []T

func (l *List[T]) Add(values ...T) {}

type Alias = low.Thing

func New(c Config) (*List[int], error) { return helper(c) }

func helper(c Config) (*List[int], error) { return nil, nil }
`

var sampleLines = []string{
	"const CodeOne Code = 1",
	"const CodeTwo Code = 2",
	"const Wait time.Duration = 2000000000",
	"func New(c Config) (*List[int], error)",
	"method (*Config) Touch(key string)",
	"method (*List[T]) Add(values ...T)",
	"method (Config) Valid() bool",
	"type Alias = example.org/sample/internal/low.Thing",
	"type Code int",
	"type Config struct",
	"type Config struct, Name string `yaml:\"name\"`",
	"type Config struct, OnEnd func(struct{Err error}) (n int)",
	"type Config struct, OnError func(struct{Err error}) (n int)",
	"type Config struct, Promoted int",
	"type List[T any] []T",
	"type Store interface",
	"type Store interface, Get(key string) (value int, ok bool)",
	"var ErrBad error",
	"var Low example.org/sample/internal/low.Thing",
}

// standard returns what the sample imports of the standard library, which is slow to load.
var standard = sync.OnceValues(func() (map[string]*types.Package, error) {
	l := newLoader("example.org/none", "")
	_, err := l.Import("time")
	if err == nil {
		_, err = l.Import("errors")
	}
	return l.loaded, err
})

// sampleDeclarations returns the declarations of a module that holds the given text and a package
// below it, beside files that are not part of the API.
func sampleDeclarations(t *testing.T, text string) ([]string, error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"sample.go":           text,
		"sample_test.go":      "package sample\n\nfunc Tested() {}\n",
		"sample_windows.go":   "package sample\n\nfunc OnWindows() {}\n",
		"other.go":            "//go:build ignore\n\npackage sample\n\nfunc Ignored() {}\n",
		"internal/low/low.go": "package low\n\ntype Thing struct{}\n\nfunc New() Thing { return Thing{} }\n",
		"nested/go.mod":       "module example.org/sample/nested\n",
		"nested/nested.go":    "package nested\n",
		"sub/deep/deep.go":    "package deep\n",
		"cmd/cmd.go":          "package main\n",
	} {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := standard()
	if err != nil {
		t.Fatal(err)
	}
	l := newLoader("example.org/sample", folder)
	l.loaded = maps.Clone(loaded)
	public, err := l.publicPackages()
	if err != nil || !slices.Equal(public, []string{"example.org/sample", "example.org/sample/sub/deep"}) {
		t.Errorf("public packages: got %v, %v", public, err)
	}
	p, err := l.Import("example.org/sample")
	if err != nil {
		return nil, err
	}
	return declarations(p)
}

func TestDeclarations(t *testing.T) {
	got, err := sampleDeclarations(t, sample)
	if err != nil || !slices.Equal(got, sampleLines) {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(sampleLines, "\n"))
	}
}

// Each case changes the sample in one place.
func TestDeclarationsNoticeAChange(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           []string // what differs from sampleLines
	}{
		{"func added", "func helper(", "func Added() {}\n\nfunc helper(", []string{"+ func Added()"}},
		{"func removed", "func New(", "func newList(", []string{"- func New(c Config) (*List[int], error)"}},
		{"result changed", "func New(c Config) (*List[int], error)", "func New(c Config) (*List[int], bool)", []string{
			"+ func New(c Config) (*List[int], bool)", "- func New(c Config) (*List[int], error)",
		}},
		{"parameter renamed", "func New(c Config)", "func New(cfg Config)", []string{
			"- func New(c Config) (*List[int], error)", "+ func New(cfg Config) (*List[int], error)",
		}},
		{"field added", "secret int", "Added int", []string{"+ type Config struct, Added int"}},
		{"field removed", "OnError, OnEnd", "OnEnd", []string{
			"- type Config struct, OnError func(struct{Err error}) (n int)",
		}},
		{"promoted field removed", "Promoted int", "", []string{"- type Config struct, Promoted int"}},
		{"field's type changed", "Name string", "Name []byte", []string{
			"+ type Config struct, Name []byte `yaml:\"name\"`", "- type Config struct, Name string `yaml:\"name\"`",
		}},
		{"tag changed", `yaml:"name"`, `yaml:"name,omitempty"`, []string{
			"- type Config struct, Name string `yaml:\"name\"`", "+ type Config struct, Name string `yaml:\"name,omitempty\"`",
		}},
		{"method added", "func (Config) Valid", "func (Config) Added() {}\nfunc (Config) Valid", []string{
			"+ method (Config) Added()",
		}},
		{"method removed", "func (Config) Valid", "func (Config) valid", []string{"- method (Config) Valid() bool"}},
		{"promoted method removed", "Touch", "touch", []string{"- method (*Config) Touch(key string)"}},
		{"receiver changed", "func (Config) Valid", "func (*Config) Valid", []string{
			"+ method (*Config) Valid() bool", "- method (Config) Valid() bool",
		}},
		{"constant of an implicit value changed", "const base = 1", "const base = 2", []string{
			"- const CodeOne Code = 1", "+ const CodeOne Code = 2", "- const CodeTwo Code = 2", "+ const CodeTwo Code = 3",
		}},
		{"constant's type changed", "CodeOne Code =", "CodeOne =", []string{
			"- const CodeOne Code = 1", "+ const CodeOne untyped int = 1",
			"- const CodeTwo Code = 2", "+ const CodeTwo untyped int = 2",
		}},
		{"constant of another package", "2 * time.Second", "2 * time.Minute", []string{
			"+ const Wait time.Duration = 120000000000", "- const Wait time.Duration = 2000000000",
		}},
		{"variable's type changed", `= errors.New("bad")`, "= 1", []string{"- var ErrBad error", "+ var ErrBad int"}},
		{"interface method added", "Get(key", "Set(int)\n\tGet(key", []string{"+ type Store interface, Set(int)"}},
		{"interface method changed", "ok bool)", "err error)", []string{
			"+ type Store interface, Get(key string) (value int, err error)",
			"- type Store interface, Get(key string) (value int, ok bool)",
		}},
		{"unexported interface method added", "Get(key", "get()\n\tGet(key", []string{
			"+ type Store interface, unexported methods",
		}},
		{"alias made a type", "Alias = low", "Alias low", []string{
			"- type Alias = example.org/sample/internal/low.Thing", "+ type Alias struct",
		}},
		{"underlying type changed", "Code int", "Code uint8", []string{"- type Code int", "+ type Code uint8"}},
		{"nothing exported changed", "helper", "assistant", nil},
		{"unexported field changed", "secret int", "secret string", nil},
		{"same type, other text", `= errors.New("bad")`, "error", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(sample, c.old) {
				t.Fatalf("the sample has no %q", c.old)
			}
			got, err := sampleDeclarations(t, strings.ReplaceAll(sample, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			if lines := difference(sampleLines, got); !slices.Equal(lines, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// What cannot be resolved is an error, not a line that never changes again.
func TestDeclarationsFail(t *testing.T) {
	for name, text := range map[string]string{
		"syntax":           "package sample\n\nfunc New( {}\n",
		"another module":   "package sample\n\nimport \"example.org/yaml\"\n\nvar V yaml.Node\n",
		"unknown constant": "package sample\n\nconst C = unknown\n",
	} {
		if lines, err := sampleDeclarations(t, text); err == nil {
			t.Errorf("%s: no error, but %q", name, lines)
		}
	}
}
