package clock

import "time"

// Period is the day in which a quota counts: 24 hours from its start or, with a zone, a calendar
// day there. It follows the wall clock. The zero value lasts 24 hours and has not started. A
// Period is not safe for concurrent use.
type Period struct {
	Zone     string         // the IANA name of the zone at whose midnight the day ends; may be empty
	Location *time.Location // the same zone; nil for 24 hours
	BadZone  bool           // there is no such zone, so that the day lasts 24 hours

	Start      time.Time // when the day started, as given to Resume or found by StartAt
	Shown      time.Time // the same in Location, or in the local zone, to be compared with ==
	Begin, End int64     // the day in nanoseconds since 1970; End is excluded
}

// SetZone sets the zone in which the day ends at midnight. The present day stays as it is until
// Resume or StartAt.
func (p *Period) SetZone(zone string) {
	var err error
	p.Zone = zone
	p.Location, err = LoadZone(zone)
	p.BadZone = err != nil
}

// Resume continues a day that has started before. With a zone it ends at the next midnight.
func (p *Period) Resume(start time.Time) {
	p.Start, p.Begin = start, UnixNano(start)
	p.End = p.Begin + int64(oneDay)
	if p.Location != nil {
		_, end := Day(start, p.Location)
		p.End = UnixNano(end)
	}
	p.show()
}

// StartAt starts a day at now or, with a zone, at the midnight before it. Start has no monotonic
// reading.
func (p *Period) StartAt(now time.Time) {
	begin, end := now.Round(0), now.Add(oneDay)
	if p.Location != nil {
		begin, end = Day(begin, p.Location)
	}
	p.Start, p.Begin, p.End = begin, begin.UnixNano(), end.UnixNano()
	p.show()
}

// Holds reports whether a time, in nanoseconds since 1970, lies in the day.
func (p *Period) Holds(wall int64) bool { return p.Begin <= wall && wall < p.End }

// show makes equal instants equal with ==, wherever the start of the day came from.
func (p *Period) show() {
	zone := p.Location
	if zone == nil {
		zone = time.Local
	}
	p.Shown = p.Start.Round(0).In(zone)
}
