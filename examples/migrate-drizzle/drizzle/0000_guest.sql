CREATE TABLE `guest` (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `guest_name_unique` ON `guest` (`name`);