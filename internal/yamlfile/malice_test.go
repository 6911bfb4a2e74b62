package yamlfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// mebi is a mebibyte, less with the race detector.
const mebi = 1 << 20 / min(racetest.Factor, 8) // in less, a long plain text is no malice

// fill repeats what unit makes until a document is as long as it may be.
func fill(unit func(i int) string) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := unit(i)
		if b.Len()+len(next) > mebi-64 {
			return b.String()
		}
		b.WriteString(next)
	}
}

func same(text string) func(int) string { return func(int) string { return text } }

// aliasBomb is nine levels of nine aliases each, and filled up.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 lol\n")
	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%[1]d [%s*a%d]\n", i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 8), i-1)
	}
	return b.String() + "b: \"" + strings.Repeat("x", mebi-2048) + "\"\n"
}

// malice is what costs a reader of YAML dearly, a mebibyte of each.
func malice() []maliceTest {
	return []maliceTest{
		{"an alias bomb", aliasBomb(), false},
		{"aliases of one anchor", "a: &a b\nc: [" + fill(same("*a,")) + "]\n", false},
		{"aliases far apart", "a: &a b\n" + fill(func(i int) string { return fmt.Sprintf("key-of-some-length-%d: *a\n", i) }), false},
		{"many anchors", "a:\n" + fill(func(i int) string { return fmt.Sprintf("- &anchor%d b\n", i) }), false},
		{"merge keys", "a: &a {b: c}\n" + fill(same("<<: *a # merge\n")), false},
		{"equal keys", fill(same("quotas: {}\n")), false},
		{"equal keys, long apart", fill(same("a-key-of-some-length: 1\n")), false},
		{"equal keys in an unknown place", "a: {" + fill(same("bbbbbbbbbbbb: 1, ")) + "}\n", false},
		{"equal models", "quotas:\n" + fill(same("  m:\n    max_rpm: 1\n")), false},
		{"many keys", fill(func(i int) string { return fmt.Sprintf("key%08d: 12\n", i) }), true},
		{"many models", "quotas:\n" + fill(func(i int) string { return fmt.Sprintf(" %x:\n  max_rpm: 1\n", i) }), true},
		{"many models that were used", "state:\n" + fill(func(i int) string { return fmt.Sprintf(" a%x:\n  day_count: 1\n", i) }), true},
		{"many models, wrong at the end", "state:\n" + fill(func(i int) string { return fmt.Sprintf(" a%x:\n  day_count: 12345678\n", i) }) + "-", false},
		{"many cooldowns", "cooldowns:\n" + fill(func(i int) string { return fmt.Sprintf(" a%x:\n  until: 9999-12-31T23:59:59Z\n", i) }), true},
		{"many zones", "quotas:\n" + fill(func(i int) string { return fmt.Sprintf(" a%x:\n  day_zone: Etc/GMT-%d\n", i, i%14) }), true},
		{"ways to write a zone", "quotas:\n" + fill(func(i int) string {
			return fmt.Sprintf(" a%x:\n  day_zone: Asia/%sTokyo\n", i, strings.Repeat("./", i))
		}), false},
		{"a long zone", "quotas: {m: {day_zone: " + strings.Repeat("A", mebi-64) + "}}\n", false},
		{"deep lists", strings.Repeat("[", mebi), false},
		{"deep maps", strings.Repeat("{a: ", mebi/4), false},
		{"deep maps of long keys", strings.Repeat("{"+strings.Repeat("k", 98)+": ", 9_900/racetest.Factor) + "{b: 1, b: 2}" + strings.Repeat("}", 9_900/racetest.Factor), false},
		{"deep maps within the limits", strings.Repeat("{"+strings.Repeat("k", 98)+": ", 9_900/racetest.Factor) + "1" + strings.Repeat("}", 9_900/racetest.Factor), true},
		{"deep lists in a line", strings.Repeat("- ", mebi/2), false},
		{"deep lists in many lines", fill(same(strings.Repeat("- ", 9_000/racetest.Factor) + "a\n")), false},
		{"deep keys", strings.Repeat("? ", mebi/2), false},
		{"deep flow lists in many lines", fill(same("- " + strings.Repeat("[", 9_000/racetest.Factor) + strings.Repeat("]", 9_000/racetest.Factor) + "\n")), false},
		{"small nodes", "a: [" + fill(same("1,")) + "]\n", false},
		{"maps of one field", "a: [" + fill(same("b: c,")) + "]\n", false},
		{"lines of old Macs", fill(same("a:\r")), false},
		{"lines of Unicode", fill(same("-\u2028-\u2029-\u0085")), false},
		{"comments", fill(same("#\n")), false},
		{"comments at every key", fill(func(i int) string { return fmt.Sprintf("# above\nk%08d: 1 # beside\n\n# below\n\n", i) }), false},
		{"one comment", "#" + strings.Repeat(" #", mebi/2-8) + "\nquotas: {}\n", true},
		{"many documents", fill(same("---\n")), false},
		{"many documents with something in them", fill(same("---\nquotas: {}\n")), false},
		{"directives", fill(same("%TAG !a! tag:b,2026:\n")), false},
		{"tags", "a: [" + fill(same("!!str b, ")) + "]\n", false},
		{"a long number", "quotas: {m: {max_rpm: " + strings.Repeat("9", mebi-64) + "}}\n", false},
		{"a long fraction", "quotas: {m: {max_rpm: 0." + strings.Repeat("9", mebi-64) + "}}\n", false},
		{"a long text of escapes", "a: \"" + fill(same(`\U0001F916`)) + "\"\n", true},
		{"a long text of quotes", "a: '" + fill(same("''")) + "'\n", true},
		{"a long plain text in many lines", "a: b\n" + fill(same(" word\n")), false},
		{"a long block text", "a: |\n" + fill(same(" some words in a line\n")), true},
		{"a long folded text", "a: >\n" + fill(same("  some more words than before in a line\n\n")), true},
		{"spaces", strings.Repeat(" ", mebi-1) + "a", false},
		{"empty lines", strings.Repeat("\n", mebi), false},
		{"NULs", strings.Repeat("\x00", mebi), false},
		{"a text without an end", "a: \"" + strings.Repeat("b\\", mebi/2-8), false},
	}
}

type maliceTest struct {
	name    string
	content string
	reads   bool
}

// A mebibyte of malice costs no more than 64 MiB of allocations, nor more than 200 ms, which
// depends on the machine and is only logged.
func TestMaliceIsCheap(t *testing.T) {
	var slowest time.Duration
	var largest uint64
	for _, test := range malice() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := DecodeState(strings.NewReader(test.content))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		slowest, largest = max(slowest, took), max(largest, allocated)

		if (err == nil) != test.reads {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && len(err.Error()) > 1024 {
			t.Errorf("%s: an error of %d bytes", test.name, len(err.Error()))
		}
		if len(test.content) > mebi || allocated > 64*mebi {
			t.Errorf("%s: %d bytes made Decode allocate %d MiB", test.name, len(test.content), allocated/mebi)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		t.Logf("%-40s %4d MiB %8v  %.90q", test.name, allocated/mebi, took.Round(100*time.Microsecond), text)
	}
	t.Logf("the slowest took %v, the largest %d MiB", slowest, largest/mebi)
}
