package state

import (
	"testing"
	"time"
)

// The days and months of zones, over a change of the clock, too.
func TestBoundsOf(t *testing.T) {
	at := func(text string) int64 {
		is, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return is.UnixNano()
	}
	wall := at("2026-03-29T12:00:00Z") // of 23 hours in Berlin
	for _, tt := range []struct {
		zone       string
		day, month Span
	}{
		{"Europe/Berlin",
			Span{at("2026-03-28T23:00:00Z"), at("2026-03-29T22:00:00Z")}, Span{at("2026-02-28T23:00:00Z"), at("2026-03-31T22:00:00Z")}},
		{"", Span{}, Span{at("2026-03-01T00:00:00Z"), at("2026-04-01T00:00:00Z")}},
		{"Nowhere/Nothing", Span{}, Span{}},
	} {
		if day, month := BoundsOf(tt.zone, wall); day != tt.day || month != tt.month {
			t.Errorf("zone %q: %v and %v, want %v and %v", tt.zone, day, month, tt.day, tt.month)
		}
	}
	start := time.Unix(0, wall)
	for zone, end := range map[string]int64{
		"Europe/Berlin": at("2026-03-29T22:00:00Z"), "": at("2026-03-30T12:00:00Z"), "Nowhere/Nothing": at("2026-03-30T12:00:00Z"),
	} {
		if is := DayFrom(start, zone); is != (Span{wall, end}) || !is.Holds(wall) || is.Holds(end) {
			t.Errorf("a day in zone %q is %v, want the end %d", zone, is, end)
		}
	}
}
