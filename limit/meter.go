package limit

// Meter is the leaky bucket as a meter: units that pass raise its level, the level drains
// at exactly Count/Per, and a request passes if the level stays within the capacity. It
// decides like GCRA but for the rounding: Meter keeps fractions of a nanosecond, so no rate
// is too fast for it, and in a year it admits exactly the rate's units of that year. Make
// it with NewMeter: the zero Meter panics. It is safe for concurrent use.
type Meter struct{ bucketed }

// NewMeter returns an empty Meter. It returns an error that matches ErrInvalid for a rate
// that is not positive, for a capacity below 1, and for a capacity that takes longer than
// 36 years to drain.
func NewMeter(rate Rate, capacity int) (*Meter, error) {
	const operation = "new meter"
	if err := rate.validate(operation); err != nil {
		return nil, err
	}
	m := new(Meter)
	return made(m, m.begin(newBucket(operation, "capacity", rate.Count, rate.Per, capacity)))
}
