// Names that tests of YAML files have for helpers.

package ratelimit_test

import (
	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/persist"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

type yamlState = map[string]*ratelimit.UsageStats

var (
	yamlLimiter = persist.YAML
	yamlPersist = persist.Save
	yamlLoad    = persist.Load
	yamlText    = persist.Text
	yamlWrite   = statefile.Write
	yamlRead    = statefile.Read
	yamlLitter  = statefile.Litter
)
