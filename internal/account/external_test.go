package account_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

const ms = int64(time.Millisecond)

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		name          string
		was, is, want account.ExternalPart
		eased         bool
	}{
		{"the first word counts", account.ExternalPart{}, account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, false},
		{"a later word replaces it", account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 1, Until: 8, SentAt: 6}, account.ExternalPart{Amount: 1, Until: 8, SentAt: 6}, true},
		{"a later word of nothing ends it", account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 0, Until: 8, SentAt: 6}, account.ExternalPart{}, true},
		{"less for longer eases", account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 2, Until: 20, SentAt: 6}, account.ExternalPart{Amount: 2, Until: 20, SentAt: 6}, true},
		{"more for less long may ease", account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 4, Until: 9, SentAt: 6}, account.ExternalPart{Amount: 4, Until: 9, SentAt: 6}, true},
		{"more for longer does not", account.ExternalPart{Amount: 3, Until: 10, SentAt: 5}, account.ExternalPart{Amount: 4, Until: 11, SentAt: 6}, account.ExternalPart{Amount: 4, Until: 11, SentAt: 6}, false},
		{"an earlier word of less is not heard", account.ExternalPart{Amount: 3, Until: 10, SentAt: 251 * ms}, account.ExternalPart{Amount: 2, Until: 20, SentAt: 0}, account.ExternalPart{Amount: 3, Until: 10, SentAt: 251 * ms}, false},
		{"nor one of as much", account.ExternalPart{Amount: 3, Until: 10, SentAt: 251 * ms}, account.ExternalPart{Amount: 3, Until: 20, SentAt: 0}, account.ExternalPart{Amount: 3, Until: 10, SentAt: 251 * ms}, false},
		{"an earlier word of more raises it", account.ExternalPart{Amount: 3, Until: 10, SentAt: 251 * ms}, account.ExternalPart{Amount: 4, Until: 5, SentAt: 0}, account.ExternalPart{Amount: 4, Until: 10, SentAt: 251 * ms}, false},
		{"250 ms are no order", account.ExternalPart{Amount: 3, Until: 10, SentAt: 250 * ms}, account.ExternalPart{Amount: 2, Until: 20, SentAt: 0}, account.ExternalPart{Amount: 2, Until: 20, SentAt: 0}, true},
	} {
		p := tt.was
		if eased, _ := p.Take(tt.is); p != tt.want || eased != tt.eased {
			t.Errorf("%s: %+v, eased %v; want %+v, %v", tt.name, p, eased, tt.want, tt.eased)
		}
	}
}

func TestExpireByTheClockOfTheWindow(t *testing.T) {
	u := account.External{state.RPM: {Amount: 1, Until: 10, SentAt: 0}, state.RPD: {Amount: 1, Until: 1000, SentAt: 0}}
	for _, tt := range []struct {
		instant, wall int64
		rpm, rpd      int
		left          bool
	}{{9, 999, 1, 1, true}, {10, 999, 0, 1, true}, {10, 1000, 0, 0, false}} {
		if left := u.Expire(tt.instant, tt.wall); left != tt.left || u[state.RPM].Amount != tt.rpm || u[state.RPD].Amount != tt.rpd {
			t.Errorf("at %d, %d: left %v, %+v", tt.instant, tt.wall, left, u)
		}
	}
}
