package lives

import (
	"sync"
	"time"
	_ "time/tzdata" // the zones of the days
)

// calendar is the beginnings of the days of a zone, as far as anybody has asked. A date begins when
// the clocks show it for the first time, and not again when they are set back over midnight.
type calendar struct {
	location *time.Location
	begins   []time.Time
	seen     time.Time // the minute up to which it was looked for
	last     int       // the latest date that was shown
}

var (
	calendarsMu sync.Mutex
	calendars   = make(map[string]*calendar)
)

// extend looks at the clocks of the zone, minute by minute.
func (c *calendar) extend(to time.Time) {
	for ; !c.seen.After(to); c.seen = c.seen.Add(time.Minute) {
		y, m, d := c.seen.In(c.location).Date()
		if date := y*10000 + int(m)*100 + d; date > c.last {
			c.last = date
			c.begins = append(c.begins, c.seen)
		}
	}
}

// calendarOf returns the calendar of a zone until three days after a time; calendarsMu must be
// held.
func calendarOf(zone string, t time.Time) *calendar {
	c := calendars[zone]
	if c == nil {
		location, err := time.LoadLocation(zone)
		if err != nil {
			panic(err)
		}
		c = &calendar{location: location, seen: time.Date(1999, 12, 28, 0, 0, 0, 0, time.UTC)}
		calendars[zone] = c
	}
	if end := t.Add(72 * time.Hour); c.seen.Before(end) {
		c.extend(end.Add(30 * 24 * time.Hour))
	}
	return c
}

// dateOf returns when the date of a zone begins and ends.
func dateOf(t time.Time, zone string) (begin, end time.Time) {
	calendarsMu.Lock()
	defer calendarsMu.Unlock()
	c := calendarOf(zone, t)
	for i := len(c.begins) - 1; i >= 0; i-- {
		if begin = c.begins[i]; !begin.After(t) {
			return begin, end
		}
		end = begin
	}
	panic("a time before all calendars")
}

// monthEnd returns when the month of a zone ends, by a look at each of its days.
func monthEnd(t time.Time, zone string) time.Time {
	if zone == "" {
		zone = "UTC"
	}
	begin, end := dateOf(t, zone)
	for {
		calendarsMu.Lock()
		location := calendars[zone].location
		calendarsMu.Unlock()
		// The date is the one that the clocks show some hours after it begins.
		if begin.Add(12*time.Hour).In(location).Month() != end.Add(12*time.Hour).In(location).Month() {
			return end
		}
		begin, end = dateOf(end, zone)
	}
}
