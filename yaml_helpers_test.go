// Names that tests of YAML files have for helpers.

package ratelimit_test

import (
	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

type yamlState = map[string]*ratelimit.UsageStats

var (
	yamlLimiter = limitertest.YAML
	yamlPersist = limitertest.Save
	yamlLoad    = limitertest.Load
	yamlText    = limitertest.Text
	yamlWrite   = statefile.Write
	yamlRead    = statefile.Read
	yamlLitter  = statefile.Litter
)
