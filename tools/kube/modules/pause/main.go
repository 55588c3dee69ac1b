// What the containers of the whole-node test run: nothing for a while, or as much as they are let.
//
//	pause             until it is asked to end (also what holds a pod's namespaces)
//	pause 5s          for that long, then success
//	pause burn 2      two threads that never rest
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func burn(threads int) {
	runtime.GOMAXPROCS(threads + 1) // one stays free for signals
	for range threads {
		go func() {
			for {
			}
		}()
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(2)
}

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	var done <-chan time.Time
	switch {
	case len(os.Args) == 1:
	case len(os.Args) == 3 && os.Args[1] == "burn":
		threads, err := strconv.Atoi(os.Args[2])
		if err != nil || threads < 1 {
			fail("burn: how many threads?")
		}
		burn(threads)
	default:
		span, err := time.ParseDuration(os.Args[1])
		if err != nil {
			fail("usage: pause [DURATION | burn THREADS]")
		}
		done = time.After(span)
	}
	select {
	case <-asked:
	case <-done:
	}
}
