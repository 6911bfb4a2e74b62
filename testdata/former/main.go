// Package main is a program on an earlier version of this library. See package formertest.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

type reply struct {
	Allowed bool
	Error   string
	Corrupt bool
}

func say(r reply, err error) {
	if err != nil {
		r.Error, r.Corrupt = err.Error(), errors.Is(err, ratelimit.ErrCorruptState)
	}
	text, _ := json.Marshal(r)
	fmt.Println(string(text))
}

func main() {
	cfg := ratelimit.Config{
		Shared: os.Args[1] == "shared", LeaseTTL: time.Second, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}},
	}
	rl, err := ratelimit.NewWithSQLiteConfig(os.Args[2], cfg)
	if say(reply{}, err); err != nil {
		return
	}
	defer rl.Close()
	var held []*ratelimit.Reservation
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "reserve":
			r, d := rl.Reserve("m", 10, 0)
			held = append(held, r)
			say(reply{Allowed: d.Allowed}, rl.Err())
		case "persist":
			say(reply{}, rl.Persist())
		case "load":
			say(reply{}, rl.Load())
		case "fill":
			rl.RecordUsage("m", 1, 2)
			rl.SetQuota("other", ratelimit.ModelQuota{MaxRPM: 7, DayZone: "UTC"})
			rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{"other": {MaxTPD: 8}})
			rl.Cooldown("cooled", time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
			for range 40 {
				rl.ObserveAnswer("m", ratelimit.Usage{PromptTokens: 2}, ratelimit.Usage{PromptTokens: 3, OutputTokens: 4})
			}
			say(reply{}, rl.Err())
		}
	}
}
