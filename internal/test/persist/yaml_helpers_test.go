// Helpers of the tests of YAML files.

package persist

import (
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

type (
	yamlQuotas = map[string]ratelimit.ModelQuota
	yamlState  = map[string]*ratelimit.UsageStats
)

func yamlTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
