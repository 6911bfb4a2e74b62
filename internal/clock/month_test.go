package clock

import (
	"testing"
	"time"
)

// Months begin and end where the calendar of the zone says.
func TestMonth(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := LoadZone(name)
		if err != nil {
			t.Skip(err)
		}
		return z
	}
	for _, tt := range []struct{ zone, at, begin, end string }{
		{"", "2026-02-14T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"", "2028-02-29T23:59:59.999999999Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"", "2026-12-31T23:59:59.999999999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"America/Los_Angeles", "2026-03-01T07:59:59Z", "2026-02-01T08:00:00Z", "2026-03-01T08:00:00Z"},
		// Summer time begins and ends in these months.
		{"America/Los_Angeles", "2026-03-01T08:00:00Z", "2026-03-01T08:00:00Z", "2026-04-01T07:00:00Z"},
		{"America/Los_Angeles", "2026-11-15T00:00:00Z", "2026-11-01T07:00:00Z", "2026-12-01T08:00:00Z"},
		{"Asia/Tokyo", "2026-12-31T15:00:00Z", "2026-12-31T15:00:00Z", "2027-01-31T15:00:00Z"},
		{"Pacific/Kiritimati", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z"},
		// The island skipped the last day but one of the year: its December had 30 days.
		{"Pacific/Apia", "2011-12-31T00:00:00Z", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"},
		// The clocks were set back over midnight to the last hour of the month before, and the
		// month went on.
		{"America/Havana", "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"},
		// They were set forward at midnight of the first, so it began at one.
		{"America/Asuncion", "2017-10-01T04:00:00Z", "2017-10-01T04:00:00Z", "2017-11-01T03:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := Month(at, zone(tt.zone))
		if got, want := begin.UTC().Format(time.RFC3339), tt.begin; got != want {
			t.Errorf("%s in %s began at %s, want %s", tt.at, tt.zone, got, want)
		}
		if got, want := end.UTC().Format(time.RFC3339), tt.end; got != want {
			t.Errorf("%s in %s ends at %s, want %s", tt.at, tt.zone, got, want)
		}
	}
}

// The months of a zone follow each other without a gap, and begin with a day.
func TestMonthsFollowEachOther(t *testing.T) {
	for _, name := range []string{"", "UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Cairo"} {
		zone, err := LoadZone(name)
		if err != nil {
			t.Skip(err)
		}
		at := time.Date(2000, 1, 15, 0, 0, 0, 0, time.UTC)
		_, last := Month(at, zone)
		for last.Year() < 2040 {
			begin, end := Month(last, zone)
			if !begin.Equal(last) {
				t.Fatalf("%s: a month begins at %v, the one before ends at %v", name, begin, last)
			}
			before, _ := Month(end.Add(-1), zone)
			if !before.Equal(begin) || end.Sub(begin) < 27*oneDay || end.Sub(begin) > 32*oneDay {
				t.Fatalf("%s: %v to %v, which at its end began at %v", name, begin, end, before)
			}
			if zone != nil {
				if day, _ := Day(begin, zone); !day.Equal(begin) {
					t.Fatalf("%s: a month begins at %v, its first day at %v", name, begin, day)
				}
			}
			last = end
		}
	}
}

// Times that no calendar has do not hang.
func TestMonthOfOddTimes(t *testing.T) {
	zone, err := LoadZone("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for _, at := range []time.Time{{}, time.Unix(1<<62, 0), time.Unix(-1<<62, 0), time.Unix(0, 1<<63-1), time.Unix(0, -1<<63)} {
		begin, end := Month(at, zone)
		if year := at.Year(); year > -1e6 && year < 1e6 && (begin.After(at) || !end.After(at)) {
			t.Errorf("%v: %v to %v", at, begin, end)
		}
	}
}
