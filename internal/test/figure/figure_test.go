package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// read is a file of the docs, with the line ends of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func TestDocsShowWhatIsDrawn(t *testing.T) {
	drawn := figure()
	if read(t, "algorithms.svg") != drawn {
		t.Error("docs/algorithms.svg is not what is drawn; go run ./internal/test/figure > docs/algorithms.svg")
	}
	if len(drawn) > 60_000 {
		t.Errorf("the figure has %d bytes, want at most 60,000", len(drawn))
	}
	if !strings.Contains(read(t, "algorithms.md"), table()) {
		t.Errorf("docs/algorithms.md does not have this table:\n%s", table())
	}
}

func TestFigureIsXML(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(figure()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWorkload(t *testing.T) {
	want := map[string]int{"Queue": 400, "FixedWindow": 300, "AnchoredWindow": 300, "SlidingLog": 300, "SlidingCounter": 300}
	for _, a := range algorithms {
		outcomes := a.run(start)
		if first, last := outcomes[0], outcomes[len(outcomes)-1]; len(outcomes) != 400 || first.at != 0 || last.at != 3995*time.Millisecond {
			t.Fatalf("%s: %d requests, from %v to %v", a.name, len(outcomes), first.at, last.at)
		}
		all := 399
		if w, ok := want[a.name]; ok {
			all = w
		}
		if _, got := tally(outcomes); got != all {
			t.Errorf("%s: %d admitted, want %d", a.name, got, all)
		}
	}
}

func TestDensest(t *testing.T) {
	at := func(d time.Duration) outcome { return outcome{at: d, starts: d, admitted: true} }
	for _, c := range []struct {
		name     string
		outcomes []outcome
		want     int
	}{
		{"none", nil, 0},
		{"the end of a second is not part of it", []outcome{at(0), at(time.Second)}, 1},
		{"what is refused does not count", []outcome{at(0), {at: 1, starts: 1}, at(2)}, 2},
		{"what queues counts when it starts", []outcome{at(0), {starts: time.Hour, admitted: true}}, 1},
		{"the densest", []outcome{at(0), at(time.Second), at(time.Second + 1), at(2*time.Second - 1), at(5 * time.Second)}, 3},
	} {
		if got := densest(c.outcomes); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
