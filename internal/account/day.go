package account

import "time"

// Day is the day in which the limits of an account count: 24 hours from its first request or, with
// a zone, the calendar day there. It follows the wall clock. The zero value has not begun.
type Day struct {
	Span
	of     *Account
	zone   *Zone // nil for 24 hours
	serial int32 // tells this day from those before
	ended  int64 // when the last day ended that is over
}

// start begins a day at a time.
func (d *Day) start(wall int64) {
	d.Span = Span{Begin: wall, End: wall + fullDay}
	if d.zone != nil && d.zone.Day.Holds(wall) {
		d.Span = d.zone.Day
	}
}

// at returns the day that lasts at a time: itself or, where the wall clock was set back before it
// began, the one that begins then. over reports that it has ended, so that nothing counts.
func (d *Day) at(wall int64) (is Span, over bool) {
	switch {
	case wall >= d.End:
		return d.Span, true
	case wall < d.Begin:
		then := *d
		then.start(wall)
		return then.Span, false
	}
	return d.Span, false
}

// begin begins a day where nothing counts in the present one: the first charge anchors it.
func (d *Day) begin(wall int64) {
	if !d.isUsed() {
		d.serial++
		d.start(wall)
		d.show()
	}
}

// roll ends a day that is over. A day that lies in the future, because the wall clock was set back,
// begins now, and what counted in it counts on.
func (d *Day) roll(wall int64) {
	switch {
	case wall < d.Begin:
		d.start(wall)
	case wall >= d.End:
		if d.isUsed() {
			d.ended = d.End
		}
		d.serial++
		d.start(wall)
		d.of.followDay()
	default:
		return
	}
	d.show()
}

// takes reports whether a charge of an earlier time counts to the present day: not one of a day
// that is over.
func (d *Day) takes(wall int64) bool {
	return wall >= d.ended && (d.zone == nil || wall >= d.zone.Day.Begin)
}

// isUsed reports whether anything counts in the day.
func (d *Day) isUsed() bool {
	u := d.of.usage
	return d.of.days == d.serial && (u.DayCount > 0 || u.DayTokens > 0)
}

// show shows when the day began.
func (d *Day) show() {
	d.of.started = time.Unix(0, d.Begin)
	d.of.usage.DayStart = d.of.started
}

// rezone has the day end at the midnight of another zone; nil for none. What was used in the
// present day counts to the day that is present there, because its times are no longer known.
func (d *Day) rezone(zone *Zone, wall int64) {
	d.roll(wall)
	if d.zone = zone; zone != nil {
		d.start(wall)
	} else {
		d.End = d.Begin + fullDay
	}
	d.show()
}
