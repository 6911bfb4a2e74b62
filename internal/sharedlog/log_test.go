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
