package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/pooling"
)

// setPool plans a pool of the program.
func (p *plan) setPool(counted string, members *pooling.Members, quota ModelQuota) {
	p.then(func() { p.rl.setPoolLocked(counted, members, quota) })
}

// removePool plans to take back what the program said of a pool.
func (p *plan) removePool(counted string) {
	p.then(func() { p.rl.removePoolLocked(counted) })
}
