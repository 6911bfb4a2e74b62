package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1,000", 59_240: "59,240", 1_234_567: "1,234,567", -100: "-100",
	} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %q, want %q", n, got, want)
		}
	}
	for _, test := range []struct{ got, want string }{
		{Count(1, "call"), "1 call"}, {Count(2000, "call"), "2,000 calls"},
		{Share(59, 60), "59 of 60 (98%)"}, {Share(1000, 0), "1,000"},
		{Limit(0), "unlimited"}, {Limit(1000), "1,000"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	table.Row("calls", "%d", 3)
	table.Row("", "and more")
	table.Verdict("100% of it", nil)
	table.Verdict("100% of it", errors.New("something"))
	table.Flush()
	if want := "calls    3\n         and more\nverdict  PASS: 100% of it\nverdict  FAIL\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestProgress(t *testing.T) {
	lines := []string{"a long first line", "short"}
	next := func() (line string) { line, lines = lines[0], lines[1:]; return line }
	var live bytes.Buffer
	p := NewProgress(&live, true, next)
	p.Show()
	p.Note("note %d", 1)
	p.finish()
	want := "\ra long first line\rnote 1           \n\rshort\n"
	if live.String() != want {
		t.Errorf("terminal %q, want %q", live.String(), want)
	}

	lines = []string{"first", "last"}
	var plain bytes.Buffer
	p = NewProgress(&plain, false, next)
	p.Show()
	p.Note("note %d", 1)
	p.finish()
	if want := "first\nnote 1\nlast\n"; plain.String() != want {
		t.Errorf("plain %q, want %q", plain.String(), want)
	}
}

func TestProgressGoesOnUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := NewProgress(&out, false, func() string { return "." }).Start()
		time.Sleep(plainEvery*3 + plainEvery/2)
		stop()
		time.Sleep(plainEvery)
		if got := strings.Count(out.String(), "."); got != 5 { // the first, three and the last
			t.Errorf("shown %d times", got)
		}
	})
}
