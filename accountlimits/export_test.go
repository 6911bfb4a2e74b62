package accountlimits

import (
	"context"

	"dappco.re/go/core/go-ratelimit"
)

// RunFor is Run for whoever takes the limits and the failures.
func (s Syncer) RunFor(ctx context.Context, set func(map[string]ratelimit.ModelQuota), onError func(error)) error {
	return s.run(ctx, func(limits map[string]ratelimit.ModelQuota, _ bool) { set(limits) }, onError)
}
