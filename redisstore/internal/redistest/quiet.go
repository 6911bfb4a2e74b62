package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

func init() { redis.SetLogger(quiet{}) }

// quiet keeps go-redis from printing each connection that fails, which here is on purpose.
type quiet struct{}

// Printf discards the text.
func (quiet) Printf(context.Context, string, ...any) {}
