package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// peers is what failsafe-go's limiter does in the table of windows: see ../peers.
//
//go:embed windows.csv
var peers string

// windowsTable has what limiters do however a provider counts calls, the worst of three runs.
func windowsTable() (string, error) {
	peer, err := csv.NewReader(strings.NewReader(peers)).ReadAll()
	if err != nil {
		return "", fmt.Errorf("read windows.csv: %w", err)
	}
	var b strings.Builder
	b.WriteString("| The provider has | calls a second | a neighbour | `Rate` | with `Retry-After` | AIMD | failsafe-go |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	row := 1
	for _, shape := range sim.Shapes() {
		for _, capacity := range []float64{2, 10} {
			for _, period := range []time.Duration{0, 5 * time.Minute} {
				neighbour := "no"
				if period > 0 {
					neighbour = "30 %"
				}
				fmt.Fprintf(&b, "| %s | %v | %s ", shape.Name, capacity, neighbour)
				for _, c := range []struct{ ours, retryAfter bool }{{true, false}, {true, true}, {false, false}} {
					refused, used, err := worstOf(shape, capacity, c.retryAfter, period, c.ours)
					if err != nil {
						return "", err
					}
					fmt.Fprintf(&b, "| %.2f, %.1f ", 100*refused, 100*used)
				}
				fmt.Fprintf(&b, "| %s, %s |\n", peer[row][3], peer[row][4])
				row++
			}
		}
	}
	return b.String(), nil
}

// worstOf returns the most that is refused and the least that is used of three runs.
func worstOf(shape sim.Shape, capacity float64, retryAfter bool, period time.Duration, ours bool) (refused, used float64, err error) {
	used = 9
	for seed := range uint64(3) {
		var client sim.Client = sim.NewPerEvent(0.1, 1000)
		if ours {
			if client, err = newRate(adaptive.RateConfig{}, seed+1); err != nil {
				return 0, 0, err
			}
		}
		run := shape.Run(capacity, retryAfter, period, seed)
		run.Clients = []sim.Client{client}
		s := run.Settled(run.Do()...)
		refused, used = max(refused, s.RefusedShare()), min(used, s.Goodput())
	}
	return refused, used, nil
}
