package clock

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := LoadZone(name)
	if err != nil || zone == nil {
		t.Fatalf("%s: %v, %v", name, zone, err)
	}
	return zone
}

func TestLoadZone(t *testing.T) {
	for _, name := range []string{"America/Los_Angeles", "Asia/Kolkata", "UTC", "America/Los_Angeles"} {
		if zone, err := LoadZone(name); err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	if zone, err := LoadZone(""); zone != nil || err != nil {
		t.Errorf("no name: %v, %v, want neither", zone, err)
	}
	for _, name := range []string{
		"Local", "Mars/Olympus_Mons", "../etc/passwd", "/etc/passwd", `America\New_York`, " ", "UTC\x00",
		"America/Los_Angeles ", strings.Repeat("a", 1<<20),
	} {
		zone, err := LoadZone(name)
		if zone != nil || err == nil {
			t.Errorf("%.40q: %v, %v, want an error", name, zone, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, `import _ "time/tzdata"`) || len(text) > 1200 {
			t.Errorf("%.40q: %d bytes: %.200s", name, len(text), text)
		}
	}
}

func TestZoneDays(t *testing.T) {
	for _, tt := range []struct {
		zone       string
		at         string // UTC, as are those below
		begin, end string
	}{
		{"UTC", "2024-02-29T12:00:00", "2024-02-29T00:00:00", "2024-03-01T00:00:00"},
		{"UTC", "2024-02-29T00:00:00", "2024-02-29T00:00:00", "2024-03-01T00:00:00"},
		{"UTC", "2024-02-29T23:59:59.999999999", "2024-02-29T00:00:00", "2024-03-01T00:00:00"},
		{"Asia/Kathmandu", "2024-06-01T18:14:59", "2024-05-31T18:15:00", "2024-06-01T18:15:00"},

		// 23 and 25 hours
		{"America/Los_Angeles", "2024-03-10T12:00:00", "2024-03-10T08:00:00", "2024-03-11T07:00:00"},
		{"America/Los_Angeles", "2024-11-03T12:00:00", "2024-11-03T07:00:00", "2024-11-04T08:00:00"},
		{"America/Los_Angeles", "2024-11-03T06:59:59", "2024-11-02T07:00:00", "2024-11-03T07:00:00"},
		{"Australia/Lord_Howe", "2024-04-06T20:00:00", "2024-04-06T13:00:00", "2024-04-07T13:30:00"},
		{"Australia/Lord_Howe", "2024-10-05T20:00:00", "2024-10-05T13:30:00", "2024-10-06T13:00:00"},
		{"Antarctica/Troll", "2024-03-31T12:00:00", "2024-03-31T00:00:00", "2024-03-31T22:00:00"},

		// The clocks went from 00:00 to 01:00.
		{"America/Sao_Paulo", "2018-11-04T12:00:00", "2018-11-04T03:00:00", "2018-11-05T02:00:00"},
		{"America/Sao_Paulo", "2018-11-04T02:59:59", "2018-11-03T03:00:00", "2018-11-04T03:00:00"},
		{"Africa/Cairo", "2024-04-26T12:00:00", "2024-04-25T22:00:00", "2024-04-26T21:00:00"},
		{"Asia/Beirut", "2024-03-31T12:00:00", "2024-03-30T22:00:00", "2024-03-31T21:00:00"},
		{"America/Havana", "2024-03-10T12:00:00", "2024-03-10T05:00:00", "2024-03-11T04:00:00"},
		// From 24:00 to 23:00, so that the second midnight is the first to begin a
		// date: the one that ends has 25 hours.
		{"America/Sao_Paulo", "2018-02-18T02:30:00", "2018-02-17T02:00:00", "2018-02-18T03:00:00"},
		{"Africa/Cairo", "2024-10-31T21:30:00", "2024-10-30T21:00:00", "2024-10-31T22:00:00"},
		{"Asia/Beirut", "2024-10-26T21:30:00", "2024-10-25T21:00:00", "2024-10-26T22:00:00"},
		// From 01:00 to 00:00: midnight comes twice on the date that it begins.
		{"America/Havana", "2024-11-03T04:30:00", "2024-11-03T04:00:00", "2024-11-04T05:00:00"},
		{"America/Havana", "2024-11-03T05:00:00", "2024-11-03T04:00:00", "2024-11-04T05:00:00"},
		{"America/Havana", "2024-11-03T05:30:00", "2024-11-03T04:00:00", "2024-11-04T05:00:00"},
		// From 00:01 to 23:01 of a date that had ended.
		{"America/St_Johns", "2006-10-29T02:29:59", "2006-10-28T02:30:00", "2006-10-29T02:30:00"},
		{"America/St_Johns", "2006-10-29T02:30:00", "2006-10-29T02:30:00", "2006-10-30T03:30:00"},
		{"America/St_Johns", "2006-10-29T02:31:00", "2006-10-29T02:30:00", "2006-10-30T03:30:00"},
		{"America/St_Johns", "2006-10-29T03:30:00", "2006-10-29T02:30:00", "2006-10-30T03:30:00"},
		// Three days later the search begins within what was shown twice.
		{"America/St_Johns", "2006-11-01T03:00:00", "2006-10-31T03:30:00", "2006-11-01T03:30:00"},
		// From 00:01 to 01:01.
		{"America/St_Johns", "2006-04-02T12:00:00", "2006-04-02T03:30:00", "2006-04-03T02:30:00"},

		// The date line
		{"Pacific/Apia", "2011-12-30T09:59:59", "2011-12-29T10:00:00", "2011-12-30T10:00:00"},
		{"Pacific/Apia", "2011-12-30T10:00:00", "2011-12-30T10:00:00", "2011-12-31T10:00:00"},
		{"Pacific/Kwajalein", "1993-08-21T11:00:00", "1993-08-20T12:00:00", "1993-08-21T12:00:00"},
		{"Pacific/Kwajalein", "1993-08-21T12:00:00", "1993-08-21T12:00:00", "1993-08-22T12:00:00"},
		{"Pacific/Kwajalein", "1969-09-30T14:00:00", "1969-09-29T13:00:00", "1969-10-01T12:00:00"},
		{"America/Juneau", "1867-10-19T00:00:00", "1867-10-18T08:57:41", "1867-10-20T08:57:41"},

		// Offsets of seconds
		{"Africa/Monrovia", "1971-06-01T12:00:00", "1971-06-01T00:44:30", "1971-06-02T00:44:30"},
		{"Africa/Monrovia", "1972-01-07T00:44:29", "1972-01-06T00:44:30", "1972-01-07T00:44:30"},

		// The last day of a leap year, for which ZoneBounds errs: from 2038 on
		// wherever the zones come from, and before with those that Go brings along.
		{"America/Los_Angeles", "2028-12-31T12:00:00", "2028-12-31T08:00:00", "2029-01-01T08:00:00"},
		{"America/Los_Angeles", "2028-12-31T04:00:00", "2028-12-30T08:00:00", "2028-12-31T08:00:00"},
		{"America/Los_Angeles", "2029-01-01T04:00:00", "2028-12-31T08:00:00", "2029-01-01T08:00:00"},
		{"America/Los_Angeles", "2040-12-31T12:00:00", "2040-12-31T08:00:00", "2041-01-01T08:00:00"},
		{"America/Los_Angeles", "2040-12-31T04:00:00", "2040-12-30T08:00:00", "2040-12-31T08:00:00"},
		{"America/Los_Angeles", "2041-01-01T04:00:00", "2040-12-31T08:00:00", "2041-01-01T08:00:00"},
		{"Australia/Sydney", "2028-12-31T12:00:00", "2028-12-30T13:00:00", "2028-12-31T13:00:00"},
		{"Australia/Sydney", "2028-12-31T14:00:00", "2028-12-31T13:00:00", "2029-01-01T13:00:00"},

		// Far away
		{"America/New_York", "0001-01-01T12:00:00", "0001-01-01T04:56:02", "0001-01-02T04:56:02"},
		{"America/New_York", "9999-07-01T12:00:00", "9999-07-01T04:00:00", "9999-07-02T04:00:00"},
		{"America/New_York", "9996-12-31T12:00:00", "9996-12-31T05:00:00", "9997-01-01T05:00:00"},
	} {
		at, begin, end := utc(t, tt.at), utc(t, tt.begin), utc(t, tt.end)
		zone := mustZone(t, tt.zone)
		gotBegin, gotEnd := Day(at, zone)
		if !gotBegin.Equal(begin) || !gotEnd.Equal(end) {
			t.Errorf("%s at %v: from %v to %v, want from %v to %v",
				tt.zone, at.In(zone), gotBegin, gotEnd, begin.In(zone), end.In(zone))
		}
	}
}

func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestZoneDayIsInTheZoneAndOnTheWallClock(t *testing.T) {
	zone := mustZone(t, "Asia/Tokyo")
	for _, at := range []time.Time{time.Now(), time.Now().UTC(), time.Now().Round(0)} {
		begin, end := Day(at, zone)
		for _, b := range []time.Time{begin, end} {
			if b.Location() != zone || b != b.Round(0) {
				t.Errorf("%#v: want it in %v, without a monotonic reading", b, zone)
			}
		}
	}
}

func TestZoneDayFarAway(t *testing.T) {
	for _, name := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"} {
		zone := mustZone(t, name)
		for _, sec := range []int64{
			-1 << 63, -1<<63 + 1, 1<<63 - 1, 1<<63 - 86400, // the last are in the year 292277026596
			1<<63 - 62135596801 - 2*86400, // where package time saturates
			1 << 55, 1<<55 + 1, 1<<55 - 1, -1 << 55, -1<<55 - 1, -1<<55 + 1,
			1 << 40, -1 << 40, 1 << 34, -1 << 34, -62135596800, -62135596801,
		} {
			for _, at := range []time.Time{time.Unix(sec, 0), time.Unix(sec, 999999999)} {
				begin, end := Day(at, zone)
				if begin.After(at) || !end.After(at) || end.Sub(begin) < 20*time.Hour || end.Sub(begin) > 28*time.Hour {
					t.Errorf("%s at %d s: from %v to %v", name, sec, begin, end)
				}
			}
		}
		Day(time.Unix(1<<63-62135596801, 999999999), zone) // the last of all: no end can be after it
		Day(time.Time{}, zone)
	}
}

// TestZoneDaysAgainstClocks looks at the clocks of a zone every minute around
// each change of its offset, and at the end of leap years.
func TestZoneDaysAgainstClocks(t *testing.T) {
	names := []string{
		"America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein", "America/Caracas", "Australia/Lord_Howe",
		"America/Los_Angeles", "America/Havana", "America/Sao_Paulo", "Asia/Gaza", "Africa/Casablanca",
		"Antarctica/Troll", "Asia/Pyongyang",
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			zone := mustZone(t, name)
			for _, near := range changes(zone, 2030-40/racetest.Factor, 2030) {
				checkZoneDays(t, zone, near)
			}
		})
	}
}

// changes returns instants, each less than six hours after a change of the
// offset of zone, and the noons that end leap years.
func changes(zone *time.Location, from, to int) (near []time.Time) {
	const none = 1 << 30
	last := none
	for at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() <= to; at = at.Add(6 * time.Hour) {
		_, offset := at.In(zone).Zone()
		if offset != last && last != none || at.YearDay() == 366 && at.Hour() == 12 {
			near = append(near, at)
		}
		last = offset
	}
	return near
}

// checkZoneDays compares Day in the days around an instant with what the
// zone's clocks show, minute by minute. The latest date that they have shown is
// the date.
func checkZoneDays(t *testing.T, zone *time.Location, near time.Time) {
	t.Helper()
	const around = 4 * 24 * 60
	var (
		minutes [2*around + 1]int // which beginning each minute is after
		begins  []time.Time
		latest  int
	)
	for i := range minutes {
		at := near.Add(time.Duration(i-around) * time.Minute)
		year, month, day := at.In(zone).Date()
		if date := year*10000 + int(month)*100 + day; date > latest {
			latest = date
			begins = append(begins, at)
		}
		minutes[i] = len(begins) - 1
	}
	// The first of the beginnings is where the minutes begin, and the next may be
	// a date that began before.
	for i, b := range minutes {
		if b < 2 || b == len(begins)-1 {
			continue
		}
		at := near.Add(time.Duration(i-around) * time.Minute)
		if fromBegin, toEnd := at.Sub(begins[b]), begins[b+1].Sub(at); fromBegin > time.Minute && toEnd > time.Minute && i%37 != 0 {
			continue
		}
		for _, at := range []time.Time{at, at.Add(time.Minute - 1)} {
			begin, end := Day(at, zone)
			if !begin.Equal(begins[b]) || !end.Equal(begins[b+1]) {
				t.Fatalf("at %v: from %v to %v, want from %v to %v",
					at.In(zone), begin, end, begins[b].In(zone), begins[b+1].In(zone))
			}
		}
	}
}

func BenchmarkDay(b *testing.B) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"UTC", "America/Los_Angeles", "Asia/Kolkata"} {
		zone := mustZone(b, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Day(at, zone)
			}
		})
	}
}
