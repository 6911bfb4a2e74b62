package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
)

// Zones visits the zones whose present day or month nobody has told: Bounds has to be called for
// them before any other verb. The zone "" has a month, that of UTC.
func (e *Engine) Zones(wall int64, yield func(name string)) {
	for _, z := range e.zones {
		if !z.Month.Holds(wall) || z.Name != "" && !z.Day.Holds(wall) {
			yield(z.Name)
		}
	}
}

// TellZones has the engine know the days and months that last, of the zones that it asks for, by
// what bounds says. It returns for how long it knows them all.
func (e *Engine) TellZones(bounds func(zone string, wall int64) (day, month account.Span), now account.Now) (known account.Span) {
	var names []string
	e.Zones(now.Wall, func(name string) { names = append(names, name) })
	for _, name := range names {
		e.TellZone(bounds, name, now)
	}
	return e.ZonesKnown(now.Wall)
}

// TellZone has the engine know the day and the month of a zone. One of which bounds knows no month
// is told of nothing, so that its quotas admit nothing.
func (e *Engine) TellZone(bounds func(zone string, wall int64) (day, month account.Span), name string, now account.Now) {
	if day, month := bounds(name, now.Wall); month != (account.Span{}) {
		e.Bounds(name, day, month, now)
	}
}

// Bounds tells the day and the month of a zone that last at a moment. What was told first holds.
func (e *Engine) Bounds(name string, day, month account.Span, now account.Now) {
	z := e.needZone(name)
	was, known := z.IsKnown(), *z
	if !z.Day.Holds(now.Wall) {
		z.Day = day
	}
	if !z.Month.Holds(now.Wall) {
		z.Month = month
	}
	if was && *z != known {
		e.other.EndWith(z, now.Wall)
		for _, a := range e.accounts { // to which something counted before that was told
			a.EndWith(z, now.Wall)
		}
	}
	if was {
		return
	}
	e.blanks = blanks{}
	for _, a := range e.accounts { // of a zone that nobody knew
		if a.Quota.DayZone == name {
			e.requote(a)
		}
	}
}

// zone returns the zone of a quota's day; nil for none.
func (e *Engine) zone(name string) *account.Zone {
	if name == "" {
		return nil
	}
	return e.needZone(name)
}

// zoneOfSpend returns the zone whose day and month spend follows.
func (e *Engine) zoneOfSpend(name string) *account.Zone {
	if z := e.zones[name]; z != nil && z.IsKnown() {
		return z
	}
	return e.zones[""]
}

func (e *Engine) needZone(name string) *account.Zone {
	z := e.zones[name]
	if z == nil {
		z = &account.Zone{Name: name}
		e.zones[name] = z
	}
	return z
}

// ZonesKnown returns a stretch of the wall clock in which the present day and month of all zones
// are known that anybody could tell.
func (e *Engine) ZonesKnown(wall int64) account.Span {
	known := account.Span{Begin: wall - account.Minute, End: wall + account.Minute}
	first := true
	for _, z := range e.zones {
		for _, s := range [...]account.Span{z.Day, z.Month} {
			switch {
			case !s.Holds(wall):
			case first:
				known, first = s, false
			default:
				known.Begin, known.End = max(known.Begin, s.Begin), min(known.End, s.End)
			}
		}
	}
	return known
}
