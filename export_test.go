// What tests of behaviour use of the inside.

package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// Charged returns the places of the charges of a reservation in the windows of its model and of its
// pools, by counted name: of two that are made without a cancellation between them, the later one
// has the larger place.
func (r *Reservation) Charged() map[string]uint32 {
	places := make(map[string]uint32)
	if r.call != nil {
		for i := range r.call.Charges {
			charge := &r.call.Charges[i]
			if a := charge.Account(); a != nil {
				places[a.Name] = uint32(r.serial)
			}
		}
	}
	return places
}

// ForgetToldStale makes the process report old profiles again.
func ForgetToldStale() { toldStale.Clear() }

// NewOverFake returns a limiter over a store in memory, and the number of its process there.
func NewOverFake(s *fakestore.Fake, cfg Config) (rl *RateLimiter, process int64, err error) {
	cfg.Store = s
	if rl, err = NewWithConfig(cfg); err == nil {
		process = rl.shared.process
	}
	return rl, process, err
}
