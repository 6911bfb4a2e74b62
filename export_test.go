// What tests of behaviour use of the inside.

package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// NewOverFake stands in until shared limiters are back.
func NewOverFake(_ *sharedlogtest.Fake, cfg Config) (rl *RateLimiter, process int64, err error) {
	rl, err = newLimiter(cfg)
	if err == nil {
		rl.teller.begin()
	}
	return rl, 0, err
}

// Charged returns the places of the charges of a reservation in the windows of its model and of its
// pools, by counted name: of two that are made without a cancellation between them, the later one
// has the larger place.
func (r *Reservation) Charged() map[string]uint32 {
	places := make(map[string]uint32)
	if r.call != nil {
		for charge := range r.call.Charges {
			if a := charge.Account(); a != nil {
				places[a.Name] = uint32(r.serial)
			}
		}
	}
	return places
}

// ForgetToldStale makes the process report old profiles again.
func ForgetToldStale() { toldStale.Clear() }
