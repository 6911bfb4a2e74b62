package state

import "fmt"

// AdaptiveField is a field of Quota that bounds a limit that is found.
type AdaptiveField struct {
	Field string // its name in Go
	Key   string // its key in a YAML file, and its column in a database
	Most  int
	Of    func(*Quota) *int

	// The reasons of refusals, constants as those of Limit.
	Negative, TooLarge string
	Crossed            string // of a floor that is above its ceiling
}

// The largest values of the bounds of the limits that are found.
const (
	MostAdaptiveRPM      = 1_000_000_000
	MostAdaptiveInFlight = 1_000_000
)

// What a bound is where only the other one is set.
const (
	defaultFloor           = 1
	defaultCeilingRPM      = 1_000_000
	defaultCeilingInFlight = 10_000
)

// Adaptive are the bounds of the limits that are found, in the order of the fields of Quota: of
// each limit its floor and then its ceiling.
var Adaptive = [...]AdaptiveField{
	{
		Field: "AdaptiveFloorRPM", Key: "adaptive_floor_rpm", Most: MostAdaptiveRPM,
		Of:       func(q *Quota) *int { return &q.AdaptiveFloorRPM },
		Negative: "invalid quota: AdaptiveFloorRPM (adaptive_floor_rpm) is negative",
		TooLarge: "invalid quota: AdaptiveFloorRPM (adaptive_floor_rpm) is above 1000000000",
		Crossed:  "invalid quota: AdaptiveFloorRPM (adaptive_floor_rpm) is above AdaptiveCeilingRPM (adaptive_ceiling_rpm)",
	},
	{
		Field: "AdaptiveCeilingRPM", Key: "adaptive_ceiling_rpm", Most: MostAdaptiveRPM,
		Of:       func(q *Quota) *int { return &q.AdaptiveCeilingRPM },
		Negative: "invalid quota: AdaptiveCeilingRPM (adaptive_ceiling_rpm) is negative",
		TooLarge: "invalid quota: AdaptiveCeilingRPM (adaptive_ceiling_rpm) is above 1000000000",
	},
	{
		Field: "AdaptiveFloorInFlight", Key: "adaptive_floor_in_flight", Most: MostAdaptiveInFlight,
		Of:       func(q *Quota) *int { return &q.AdaptiveFloorInFlight },
		Negative: "invalid quota: AdaptiveFloorInFlight (adaptive_floor_in_flight) is negative",
		TooLarge: "invalid quota: AdaptiveFloorInFlight (adaptive_floor_in_flight) is above 1000000",
		Crossed:  "invalid quota: AdaptiveFloorInFlight (adaptive_floor_in_flight) is above AdaptiveCeilingInFlight (adaptive_ceiling_in_flight)",
	},
	{
		Field: "AdaptiveCeilingInFlight", Key: "adaptive_ceiling_in_flight", Most: MostAdaptiveInFlight,
		Of:       func(q *Quota) *int { return &q.AdaptiveCeilingInFlight },
		Negative: "invalid quota: AdaptiveCeilingInFlight (adaptive_ceiling_in_flight) is negative",
		TooLarge: "invalid quota: AdaptiveCeilingInFlight (adaptive_ceiling_in_flight) is above 1000000",
	},
}

// AdaptiveOf returns the bound that has the given key in files.
func AdaptiveOf(key string) (f *AdaptiveField, ok bool) {
	for i := range Adaptive {
		if Adaptive[i].Key == key {
			return &Adaptive[i], true
		}
	}
	return nil, false
}

// Adapts reports whether the quota searches for a limit.
func (q *Quota) Adapts() bool { return q.AdaptsRate() || q.AdaptsSlots() }

// AdaptsRate reports whether the rate of the requests is found.
func (q *Quota) AdaptsRate() bool { return q.AdaptiveFloorRPM|q.AdaptiveCeilingRPM != 0 }

// AdaptsSlots reports whether the limit of the calls in flight is found.
func (q *Quota) AdaptsSlots() bool { return q.AdaptiveFloorInFlight|q.AdaptiveCeilingInFlight != 0 }

// RateBounds returns between which rates one is found, in requests per minute. They count for
// nothing where AdaptsRate is false.
func (q *Quota) RateBounds() (floor, ceiling int) {
	return bounds(q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM, defaultCeilingRPM)
}

// SlotBounds is RateBounds for the calls in flight.
func (q *Quota) SlotBounds() (floor, ceiling int) {
	return bounds(q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight, defaultCeilingInFlight)
}

// bounds returns the bounds of a limit that is found; zero is not set.
func bounds(floor, ceiling, most int) (int, int) {
	if floor == 0 {
		floor = defaultFloor
	}
	if ceiling == 0 {
		ceiling = max(most, floor)
	}
	return floor, ceiling
}

// adaptive returns the i-th of the bounds, as Of does; a call of that would put the quota on the
// heap.
func (q *Quota) adaptive(i int) *int {
	switch i {
	case 0:
		return &q.AdaptiveFloorRPM
	case 1:
		return &q.AdaptiveCeilingRPM
	case 2:
		return &q.AdaptiveFloorInFlight
	default:
		return &q.AdaptiveCeilingInFlight
	}
}

// invalidAdaptive returns the first of the bounds that is out of range, with the reason and the
// most that it may be; "" for no reason.
func (q *Quota) invalidAdaptive() (f *AdaptiveField, reason string, most int) {
	for i := range Adaptive {
		f := &Adaptive[i]
		switch value := *q.adaptive(i); {
		case value < 0:
			return f, f.Negative, f.Most
		case value > f.Most:
			return f, f.TooLarge, f.Most
		}
	}
	for i := 0; i < len(Adaptive); i += 2 {
		f := &Adaptive[i]
		if ceiling := *q.adaptive(i + 1); ceiling > 0 && *q.adaptive(i) > ceiling {
			return f, f.Crossed, ceiling
		}
	}
	return nil, "", 0
}

// CheckAdaptive returns an error that names field and value if one of the bounds of the limits that
// are found is out of range.
func (q *Quota) CheckAdaptive() error {
	f, reason, most := q.invalidAdaptive()
	if reason == "" {
		return nil
	}
	want := "0 to"
	if reason == f.Crossed {
		want = "at most the ceiling,"
	}
	return fmt.Errorf("%s (%s) is %d, want %s %d", f.Field, f.Key, *f.Of(q), want, most)
}

// adaptiveOver takes the bounds of each limit that is found from another quota where there are
// none.
func (q *Quota) adaptiveOver(below *Quota) {
	if !q.AdaptsRate() {
		q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = below.AdaptiveFloorRPM, below.AdaptiveCeilingRPM
	}
	if !q.AdaptsSlots() {
		q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight = below.AdaptiveFloorInFlight, below.AdaptiveCeilingInFlight
	}
}
