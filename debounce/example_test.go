package debounce_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// Search as you type: only what is in the box when the typing pauses is searched
// for.
func ExampleNew() {
	search := debounce.New(debounce.Options{
		Delay: 300 * time.Millisecond,
	}, func(query string) {
		fmt.Printf("searching for %q\n", query)
	})

	for _, query := range []string{"r", "ra", "rat", "rate", "rate limit"} {
		search.Trigger(query)
	}
	search.Flush() // somebody hit the enter key
	// Output:
	// searching for "rate limit"
}

// Reload a configuration: an editor that saves a file makes a handful of events,
// and a deployment that never pauses must not put the reload off for ever.
func ExampleDebouncer_reloadConfig() {
	reload := debounce.New(debounce.Options{
		Delay:   500 * time.Millisecond,
		MaxWait: 5 * time.Second,
		OnPanic: func(p any) { log.Printf("reload: %v", p) },
	}, func(file string) {
		fmt.Println("reloading after a change of", file)
	})

	for _, file := range []string{"config.yaml~", "config.yaml.tmp", "config.yaml"} {
		reload.Trigger(file)
	}

	// The last change is not lost when the program ends, and no reload outlives it.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := reload.Stop(ctx); err != nil {
		log.Print("a reload is still running: ", err)
	}
	// Output:
	// reloading after a change of config.yaml
}

// Report progress: the first step at once, then at most ten times a second, and
// the last one always.
func ExampleNewThrottle() {
	shown := make(chan bool, 1)
	progress := debounce.NewThrottle(100*time.Millisecond, debounce.Options{}, func(percent int) {
		fmt.Printf("%d %%\n", percent)
		if percent == 0 {
			shown <- true
		}
	})

	progress.Trigger(0)
	<-shown // what follows takes no time here, so wait for the first to be seen
	for percent := 1; percent <= 100; percent++ {
		progress.Trigger(percent)
	}
	if err := progress.Stop(context.Background()); err != nil {
		log.Print(err)
	}
	// Output:
	// 0 %
	// 100 %
}

// Add up the tokens that are used, by model, and write one row for each instead of
// one for each call.
func ExampleNewCoalescer() {
	type usage struct{ requests, tokens int }

	events := debounce.NewCoalescer(debounce.CoalescerOptions[usage]{
		Delay:   time.Second,
		MaxWait: 10 * time.Second,
		MaxSize: 1000,
		Merge: func(old, new usage) usage {
			return usage{old.requests + new.requests, old.tokens + new.tokens}
		},
		OnPanic: func(p any) { log.Printf("usage was not written: %v", p) },
	}, func(batch map[string]usage) {
		for _, model := range slices.Sorted(maps.Keys(batch)) {
			fmt.Printf("%s: %d tokens in %d requests\n", model, batch[model].tokens, batch[model].requests)
		}
	})

	events.Add("gemini-pro", usage{1, 1200})
	events.Add("gemini-flash", usage{1, 300})
	events.Add("gemini-pro", usage{1, 800})

	if err := events.Stop(context.Background()); err != nil {
		log.Print(err)
	}
	if !events.Add("gemini-pro", usage{1, 50}) {
		fmt.Println("too late")
	}
	// Output:
	// gemini-flash: 300 tokens in 1 requests
	// gemini-pro: 2000 tokens in 2 requests
	// too late
}

// Send log lines a hundred at a time, and no later than a second after they were
// written.
func ExampleNewBatcher() {
	lines := debounce.NewBatcher(debounce.BatcherOptions{
		Delay:   200 * time.Millisecond,
		MaxWait: time.Second,
		MaxSize: 100,
	}, func(lines []string) {
		fmt.Printf("sending %d lines, %q to %q\n", len(lines), lines[0], lines[len(lines)-1])
	})

	lines.Add("started")
	lines.Add("listening")
	lines.Flush()

	lines.Add("stopping")
	if err := lines.Stop(context.Background()); err != nil {
		log.Print(err)
	}
	// Output:
	// sending 2 lines, "started" to "listening"
	// sending 1 lines, "stopping" to "stopping"
}
