package account

import (
	"fmt"
	"time"
)

// Two calls were charged five seconds each. The first turns out to have cost one.
func Example_backlog() {
	var b backlog
	b.Push(0, 5*time.Second, time.Minute)
	b.Push(3*time.Second, 5*time.Second, time.Minute)
	fmt.Println(b.Empty())

	b.Set(0, 0, time.Second, time.Minute)
	fmt.Println(b.Empty())
	// Output:
	// 10s
	// 8s
}
