// Package foundlimits tests the limits that a limiter finds by itself, where the provider says
// none: which refusal moves which limit, against a model of what they may admit, over restarts, and
// for those who wait. Only tests are in it.
package foundlimits

import (
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of limiters without OnError
	os.Exit(m.Run())
}
