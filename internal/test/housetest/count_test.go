package housetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A module in which each figure is small, and where the lines that count are known.
func sampleModule() fstest.MapFS {
	return fstest.MapFS{
		"go.mod": {},
		"a.go": {Data: []byte(`package p

// RateLimiter has a field.
type RateLimiter struct{ shared *shared }

func (rl *RateLimiter) A() bool { return rl.shared == nil }
func (rl RateLimiter) B() bool  { return nil != rl.shared && rl.other != nil }
func RateLimiterC()             {}
`)},
		"a_windows.go":             {Data: []byte("package p\nimport `x/go-ratelimit/internal/a`\nfunc (*shared) x() {}\n")},
		"a_linux.go":               {Data: []byte("package p\n\nfunc (*shared) x() {}\n\nfunc (*shared) y() {}\n")},
		"a_test.go":                {Data: []byte("package p\n\nfunc (*shared) z() {}\n" + function(100))},
		"b_test.go":                {Data: []byte("package p; import `x/go-ratelimit/internal/b`\n")},
		"c_test.go":                {Data: []byte("package p\n\n\n")},
		"limit/a.go":               {Data: []byte("package limit\n" + function(10))},
		"internal/a/a.go":          {Data: []byte("package a\nimport \"x/go-ratelimit/internal/c\"\nimport \"x/go-ratelimit/limit\"\n")},
		"internal/a/a_test.go":     {Data: []byte("package a\n" + function(150))},
		"internal/bench/go.mod":    {},
		"internal/bench/a.go":      {Data: []byte("package bench\n" + function(900))},
		"internal/bench/a_test.go": {Data: []byte("package bench\n" + function(900))},
		"testdata/a.go":            {Data: []byte("not Go")},
		".hidden/a.go":             {Data: []byte("not Go")},
	}
}

// function returns a function that takes n lines.
func function(n int) string {
	return fmt.Sprintf("\n// Comment of f.\nfunc f() {\n%s}\n", strings.Repeat("\tf()\n", n-2))
}

func TestCount(t *testing.T) {
	sources, err := readSources(sampleModule())
	if err != nil {
		t.Fatal(err)
	}
	want := []int{
		3, 8 + 3 + 5, 13, 10, // files and lines of the root, lines of the largest file and function
		2,       // packages that the root links
		2, 2, 2, // methods of RateLimiter and shared, comparisons
		153, 3, // lines of the largest test file and of the median one
	}
	for i, f := range count(sources) {
		if f.have != want[i] {
			t.Errorf("%s: got %d, want %d", f.name, f.have, want[i])
		}
	}
}

func TestCountNamesWhatIsOver(t *testing.T) {
	module := sampleModule()
	module["limit/a.go"] = &fstest.MapFile{Data: []byte("package limit\n" + function(maxFunctionLines) + function(maxFunctionLines+1))}
	module["limit/b.go"] = &fstest.MapFile{Data: []byte("package limit" + strings.Repeat("\n", maxFileLines+1))}
	module["limit/c.go"] = &fstest.MapFile{Data: []byte("package limit" + strings.Repeat("\n", maxFileLines))}
	module["b_test.go"] = &fstest.MapFile{Data: []byte("package p" + strings.Repeat("\n", maxTestFileLines+1))}
	sources, err := readSources(module)
	if err != nil {
		t.Fatal(err)
	}
	var over []string
	for _, f := range count(sources) {
		over = append(over, f.over...)
	}
	want := []string{"401 limit/b.go", "61 limit/a.go:66 f", "601 b_test.go"}
	if !slices.Equal(over, want) {
		t.Errorf("got %q, want %q", over, want)
	}
}

func TestWideComments(t *testing.T) {
	words := strings.Repeat("word ", 19) // with "// ", 98 columns
	source := "package p\n\n" +
		"// " + words + "ab\n" + // 100
		"// " + words + "abc\n" + // 101
		"// " + words + "äö\n" + // 100 columns, 102 bytes
		"func f() {\n" +
		"\t// " + words + "\n" + // a tab is 4 columns
		"\tf() // " + words + "and behind code\n" +
		"}\n\n" +
		"//go:generate " + words + words + "\n\n" +
		"//" + words + "without a space\n\n" +
		"// https://example.org/" + strings.Repeat("x", 100) + "\n\n" +
		"/*\n" + words + words + "\n*/\n" +
		"const s = `// " + words + words + "`\n"
	sources, err := readSources(fstest.MapFS{"a.go": {Data: []byte(source)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.go:4 has 101 columns", "a.go:7 has 102 columns", "a.go:13 has 112 columns", "a.go:18 has 190 columns",
	}
	if got := wideComments(sources); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadSourcesFails(t *testing.T) {
	if _, err := readSources(fstest.MapFS{"a.go": {Data: []byte("pakage p")}}); err == nil {
		t.Error("no error for a file that is not Go")
	}
}
