package clock

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// LongestDay is the length of the longest day of a zone, in nanoseconds: one that crosses
// the date line has a day of 48 hours.
const LongestDay = int64(48 * time.Hour)

// zones holds the zones that were asked for, some six hundred at most, and the errors of
// unknown names, so that no call but the first looks for a file.
var zones sync.Map // string to *time.Location or error

// oneDay is the length of a day without a change of the clocks.
const oneDay = 24 * time.Hour

// maxBadZones is how many unknown names are remembered.
const maxBadZones = 1000

var badZones atomic.Int32

// LoadZone returns the zone with an IANA name; nil for an empty name. The error names the
// zone and the remedy. The first call for a name reads a file; LoadZone is safe for
// concurrent use.
func LoadZone(name string) (*time.Location, error) {
	if name == "" {
		return nil, nil
	}
	if found, ok := zones.Load(name); ok {
		if zone, ok := found.(*time.Location); ok {
			return zone, nil
		}
		return nil, found.(error)
	}
	zone, err := time.LoadLocation(name)
	if name == "Local" || path.Clean(name) != name {
		// Local is another zone on another machine, and there is no end of other ways to
		// write a name.
		err = errors.New("not an IANA name")
	}
	if err == nil {
		zones.Store(name, zone)
		return zone, nil
	}
	err = unknownZone(name, err)
	if badZones.Add(1) <= maxBadZones {
		zones.Store(name, err)
	}
	return nil, err
}

func unknownZone(name string, err error) error {
	return fmt.Errorf(`unknown time zone %q, want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": %w`,
		errtext.Clip(name), errtext.Printable(err))
}

// Day returns the calendar day of zone that t lies in: from its first instant to that of
// the next. A date begins at the first instant at which the clocks of zone show it or a
// later one, and does not begin again when they are set back over midnight: the hours that
// they then show twice belong to the later date. A date that they skip has no day.
//
// A day lasts 22 to 26 hours, and up to 48 where a zone crossed the date line.
// Both instants are in zone and without a monotonic reading. Day is safe for concurrent use.
func Day(t time.Time, zone *time.Location) (begin, end time.Time) {
	t = t.Round(0).In(zone)
	if s := t.Unix(); s < -1<<55 || s > 1<<55 {
		// Over a billion years away. At the ends of its range, 292 billion years
		// away, package time saturates and wraps around, and the steps below might
		// not lead on.
		hour, minute, second := t.Clock()
		begin = t.Add(-time.Duration(hour*3600+minute*60+second)*time.Second - time.Duration(t.Nanosecond()))
		return begin, begin.Add(oneDay)
	}
	// From one beginning to the next, from before the day of t, however long that
	// is. If the clocks have just been set back at that instant, the first midnight
	// found is a repeated one; the second cannot be, and is not after t either.
	begin = t.Add(-3 * oneDay)
	for {
		midnight := clockFace(begin).Truncate(oneDay).Add(oneDay)
		end = firstShowing(begin, midnight)
		if end.After(t) {
			return begin, end
		}
		begin = end
	}
}

// clockFace returns the reading of the clocks of t's zone at t, as a time of UTC, in which
// such readings can be compared and subtracted.
func clockFace(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstShowing returns the first instant from t on at which the clocks of t's zone show
// reading or later. It does not use time.Date, whose result is unspecified for a reading
// that the clocks skip or repeat.
func firstShowing(t, reading time.Time) time.Time {
	for {
		left := reading.Sub(clockFace(t))
		if left <= 0 {
			return t
		}
		_, change := t.ZoneBounds()
		if !change.IsZero() && !change.After(t) {
			// Where a rule and no table gives a zone's changes, for many zones from
			// 2007 on, Go 1.26 ends leap years with the first instant of their 31
			// December in UTC. No rule has a change between that and the next year.
			change = t.Truncate(oneDay).Add(oneDay)
		}
		// Until the offset changes, the zone's clocks run like any other.
		if first := t.Add(left); change.IsZero() || first.Before(change) {
			return first
		}
		t = change
	}
}

// Month returns the calendar month of zone that t lies in: from its first instant to that of the
// next. A nil zone is UTC. Months begin as their first dates do: see Day. Month is safe for
// concurrent use.
func Month(t time.Time, zone *time.Location) (begin, end time.Time) {
	if zone == nil {
		zone = time.UTC
	}
	t = t.Round(0).In(zone)
	year, month, _ := clockFace(t).Date()
	if year < -1e6 || year > 1e6 {
		return t, t.AddDate(0, 1, 0) // package time saturates at the ends of its range
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	// No clock is two days away from UTC. A month that has begun lasts, although the clocks that
	// were set back over midnight show the one before it.
	begin = firstShowing(first.Add(-2*oneDay).In(zone), first)
	for {
		first = first.AddDate(0, 1, 0)
		if end = firstShowing(begin, first); end.After(t) {
			return begin, end
		}
		begin = end
	}
}
