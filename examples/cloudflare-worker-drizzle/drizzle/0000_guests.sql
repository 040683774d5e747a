CREATE TABLE `guest` (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `guest_name_unique` ON `guest` (`name`);--> statement-breakpoint
CREATE TABLE `visit` (
	`id` integer PRIMARY KEY NOT NULL,
	`method` text NOT NULL
);
