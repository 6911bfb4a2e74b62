package sharedlog

import (
	"slices"
	"testing"
)

func TestImageMissing(t *testing.T) {
	event := func(process, n int64) *Event { return &Event{Process: process, N: n} }
	img := Image{Events: []*Event{event(1, 1), event(0, 0), event(2, 2)}}
	a, b := event(2, 1), event(1, 2)
	if got := img.Missing([]*Event{event(1, 1), a, event(0, 5), event(2, 2), b}); !slices.Equal(got, []*Event{a, b}) {
		t.Errorf("%d are missing, want 2", len(got))
	}
	if got := img.Missing(nil); got != nil {
		t.Errorf("%d of none are missing", len(got))
	}
}

// What a later version may have written, and what would change limits, is refused. What counts to
// nothing is passed over by whoever cannot read it.
func TestEventCheckOfKinds(t *testing.T) {
	known := map[Kind]string{Quota: "{}", Found: `{"at":1}`}
	for kind := Kind(-1); kind < 40; kind++ {
		e := &Event{Seq: 1, Process: 1, Kind: kind, Text: known[kind]}
		is := kind >= Use && kind <= ReleaseAll || kind == Answers || kind == Found
		if err := e.Check(); (err == nil) != is {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	for _, e := range []Event{
		{Kind: Quota}, {Kind: Quota, Text: `{"MaxRPM":-1}`}, {Kind: Quota, Text: `{"MinRPM":1}`}, {Kind: Quota, Text: "{}{}"},
		{Kind: Found}, {Kind: Found, Text: `{"at":"x"}`}, {Kind: Found, Text: `{"until":1}`}, {Kind: Found, Text: "{}{}"},
	} {
		if e.Seq, e.Process = 1, 1; e.Check() == nil {
			t.Errorf("kind %d with %q is accepted", e.Kind, e.Text)
		}
	}
	if e := (Event{Seq: 1, Process: 1, Kind: Answers, Text: "x"}); e.Check() != nil {
		t.Errorf("answers: %v", e.Check())
	}
}
