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
		Delay: time.Minute, // 300 ms would be usual; but no test depends on its speed
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
		Delay:   10 * time.Second,
		MaxWait: time.Minute,
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

// Report the progress of a long job: the first step at once, then at most once a
// minute, and the last one always.
func ExampleNewThrottle() {
	progress := debounce.NewThrottle(time.Minute, debounce.Options{}, func(percent int) {
		fmt.Printf("%d %%\n", percent)
	})

	for percent := 0; percent <= 100; percent++ {
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
		Delay:   10 * time.Second,
		MaxWait: time.Minute,
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

// Send log lines a hundred at a time, and no later than a minute after they were
// written.
func ExampleNewBatcher() {
	lines := debounce.NewBatcher(debounce.BatcherOptions{
		Delay:   10 * time.Second,
		MaxWait: time.Minute,
		MaxSize: 100,
	}, func(batch []string) {
		fmt.Printf("sending %q\n", batch)
	})

	lines.Add("started")
	lines.Add("listening")
	lines.Flush()

	lines.Add("stopping")
	if err := lines.Stop(context.Background()); err != nil {
		log.Print(err)
	}
	// Output:
	// sending ["started" "listening"]
	// sending ["stopping"]
}
