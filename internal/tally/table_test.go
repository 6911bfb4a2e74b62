package tally

import (
	"fmt"
	"strings"
	"testing"
)

// Kept names outlive any number of others, of which the last used stay.
func TestTable(t *testing.T) {
	var table Table[int]
	kept := func(name string) bool { return strings.HasPrefix(name, "own") }
	use := func(name string) *int { return table.Use(name, 50, kept) }
	for i := range 50 {
		*use(fmt.Sprint("own", i)) = i
	}
	*use("busy") = 7
	for i := range 100_000 {
		use(fmt.Sprint("invented", i))
		if i%500 == 0 {
			*use("busy")++
		}
	}
	for i := range 50 {
		if v := table.Get(fmt.Sprint("own", i)); v == nil || *v != i {
			t.Errorf("own%d is %v", i, v)
		}
	}
	if v := table.Get("busy"); v == nil || *v != 207 {
		t.Errorf("busy is %v", v)
	}
	if table.Get("invented99999") == nil || table.Get("invented98000") != nil {
		t.Error("of the others not the last used are there")
	}
	n := 0
	for range table.All() {
		n++
	}
	if n != 1050 || table.byUse.Len() != n {
		t.Errorf("%d names", n)
	}
	if use(strings.Repeat("x", mostBytes+1)) != nil || use("own"+strings.Repeat("x", mostBytes)) == nil {
		t.Error("long names: only what is kept has a place")
	}
	if table.Forget("busy"); table.Get("busy") != nil {
		t.Error("a name outlives Forget")
	}
}

// Names that were kept and are not any more leave as others do.
func TestTableOfFormerNames(t *testing.T) {
	var table Table[int]
	for i := range 10_000 {
		name := fmt.Sprint(i)
		table.Use(name, 1, func(is string) bool { return is == name })
	}
	if len(table.all) != mostOthers+1 {
		t.Errorf("%d names", len(table.all))
	}
}
