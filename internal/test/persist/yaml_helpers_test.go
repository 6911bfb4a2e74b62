// Helpers of the tests of YAML files.

package persist

import (
	ratelimit "dappco.re/go/core/go-ratelimit"
)

type (
	yamlQuotas = map[string]ratelimit.ModelQuota
	yamlState  = map[string]*ratelimit.UsageStats
)
