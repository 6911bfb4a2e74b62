package audit

import (
	"fmt"
	"testing"
)

// A call finds the sums of its class by its mark, or by what Need returned, whatever else was asked
// for and forgotten meanwhile.
func TestMarksLeadToTheSumsOfTheirClass(t *testing.T) {
	var c Classes
	if c.Marked(0) != nil || c.Marked(Watched) != nil || c.Mark("0") != 0 {
		t.Error("no class has sums")
	}
	const classes = mostClasses + 200
	for round := range 3 {
		var marks [classes]Mark
		for i := range classes {
			name := fmt.Sprint(i)
			if c.Mark(name) != 0 {
				t.Fatalf("class %s has a mark before it was needed", name)
			}
			a, m := c.Need(name)
			if a.Reserved.Calls++; m&Watched != 0 || m != c.Mark(name) || (m != 0) != (i < int(Watched)-1) {
				t.Fatalf("class %s has mark %d", name, m)
			}
			marks[i] = m
		}
		for i, m := range marks {
			name := fmt.Sprint(i)
			again, same := c.Need(name)
			want := c.All()[name]
			if i >= mostClasses {
				want = c.All()[Other]
			}
			if again != want || same != m || m != 0 && (c.Marked(m) != want || c.Marked(m|Watched) != want) {
				t.Fatalf("class %s has other sums", name)
			}
			if want.Reserved.Calls != int64(round+1) && i < mostClasses {
				t.Fatalf("class %s has %d calls in round %d", name, want.Reserved.Calls, round)
			}
		}
		c.Forget()
	}
	if n := len(c.All()); n != mostClasses+1 {
		t.Errorf("%d classes have sums", n)
	}
	if n := c.All()[Other].Reserved.Calls; n != 3*200 {
		t.Errorf("the others have %d calls", n)
	}
}
