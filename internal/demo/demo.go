// Package demo is how the programs under examples/ run and end, and what they show themselves with:
// a live line, a table and numbers as people write them. Nothing in it is needed by a program that
// limits calls.
package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Group writes a number with commas between the thousands.
func Group(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Count is a number of things in words, such as "1 call" and "2,000 calls".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Group(n) + " " + thing + "s"
}

// Share is the used part of a limit, also in per cent: "59 of 60 (98%)". A limit of zero is none.
func Share(used, limit int) string {
	if limit == 0 {
		return Group(used)
	}
	return fmt.Sprintf("%s of %s (%d%%)", Group(used), Group(limit), 100*used/limit)
}

// Limit is a limit in words. Zero is "unlimited".
func Limit(limit int) string {
	if limit == 0 {
		return "unlimited"
	}
	return Group(limit)
}

// Table is a table of two columns. Make one with [NewTable].
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table that Flush writes to out.
func NewTable(out io.Writer) *Table { return &Table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

// Row adds a row. A row without a name continues the one before.
func (t *Table) Row(name, format string, args ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// Verdict adds the row that says PASS and why, or FAIL if something is wrong.
func (t *Table) Verdict(pass string, wrong error) {
	if wrong != nil {
		t.Row("verdict", "FAIL")
		return
	}
	t.Row("verdict", "PASS: %s", pass)
}

// Flush writes the table.
func (t *Table) Flush() { t.w.Flush() }
