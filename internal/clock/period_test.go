package clock

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, tt := range []struct {
		name, zone       string
		resumes          bool
		at, start, until string
	}{
		{"24 hours", "", false, "2026-03-08T09:30:00Z", "2026-03-08T09:30:00Z", "2026-03-09T09:30:00Z"},
		{"24 hours, resumed", "", true, "2026-03-08T09:30:00Z", "2026-03-08T09:30:00Z", "2026-03-09T09:30:00Z"},
		{"the midnight before", "UTC", false, "2026-03-08T09:30:00Z", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"resumed until midnight", "UTC", true, "2026-03-08T09:30:00Z", "2026-03-08T09:30:00Z", "2026-03-09T00:00:00Z"},
		{"a day of 23 hours", "America/Los_Angeles", false, "2026-03-08T20:00:00Z", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"},
		{"the same, resumed", "America/Los_Angeles", true, "2026-03-08T08:00:00Z", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"},
		{"an unknown zone", "Mars/Olympus", false, "2026-03-08T09:30:00Z", "2026-03-08T09:30:00Z", "2026-03-09T09:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Period
			p.SetZone(tt.zone)
			if bad := tt.zone == "Mars/Olympus"; p.Zone != tt.zone || p.BadZone != bad || (p.Location != nil) != (tt.zone != "" && !bad) {
				t.Errorf("zone %q, location %v, bad %v", p.Zone, p.Location, p.BadZone)
			}
			if tt.resumes {
				p.Resume(at(tt.at))
			} else {
				p.StartAt(at(tt.at))
			}
			begin, end := at(tt.start).UnixNano(), at(tt.until).UnixNano()
			if !p.Start.Equal(at(tt.start)) || p.Begin != begin || p.End != end {
				t.Errorf("from %v (%d) to %d, want %v (%d) to %d", p.Start, p.Begin, p.End, tt.start, begin, end)
			}
			if p.Holds(begin-1) || !p.Holds(begin) || !p.Holds(end-1) || p.Holds(end) {
				t.Error("does not hold from its beginning to before its end")
			}
			zone := time.Local
			if p.Location != nil {
				zone = p.Location
			}
			if p.Shown != at(tt.start).In(zone) {
				t.Errorf("shown as %v, want %v", p.Shown, at(tt.start).In(zone))
			}
		})
	}
}

// The start that a program sees is the one that it gave, and has no monotonic reading otherwise.
func TestPeriodStart(t *testing.T) {
	var p Period
	given := time.Date(2026, 3, 8, 9, 0, 0, 0, time.FixedZone("here", 3600))
	if p.Resume(given); p.Start != given {
		t.Errorf("%v, want %v", p.Start, given)
	}
	now := time.Now()
	if p.StartAt(now); p.Start != now.Round(0) || p.Shown != now.Round(0).In(time.Local) {
		t.Errorf("%#v, shown as %#v", p.Start, p.Shown)
	}
	// So far away that the wall clock in nanoseconds has no value for it.
	p.Resume(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	if p.Holds(now.UnixNano()) {
		t.Error("a day of the year 1 lasts")
	}
}
